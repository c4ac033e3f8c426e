-- Asia-Customer, Equation (1) of paper 001: customers with a flight to Asia. Two databases.
-- dyda: extent = any
SELECT c.name /* replaceable */, f.age /* replaceable */, f.flight_no, f.dest
FROM crm.customer c /* replaceable */
JOIN booking.flight_res f ON c.name = f.name /* replaceable */
WHERE f.dest = 'Asia'
