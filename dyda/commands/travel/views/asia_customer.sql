-- Asia-Customer, Equation (1) of paper 001: customers with a flight to Asia. Two databases.
SELECT c.name, f.age, f.flight_no, f.dest
FROM crm.customer c
JOIN booking.flight_res f ON c.name = f.name
WHERE f.dest = 'Asia'
