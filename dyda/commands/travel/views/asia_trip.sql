-- Who flies to Asia and takes which tour there. All four databases.
SELECT c.name, c.phone, f.flight_no, t.type AS tour, t.no_days AS days, p.start_date
FROM crm.customer c
JOIN booking.flight_res f ON f.name = c.name
JOIN people.participant p ON p.participant = c.name
JOIN tours.tour t ON t.tour_id = p.tour_id
WHERE f.dest = 'Asia' AND p.loc = 'Asia'
