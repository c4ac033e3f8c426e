-- Who flies to Asia and takes which tour there. Three databases.
SELECT p.participant AS name, f.flight_no, t.type AS tour, t.no_days AS days, p.start_date
FROM booking.flight_res f
JOIN people.participant p ON p.participant = f.name
JOIN tours.tour t ON t.tour_id = p.tour_id
WHERE f.dest = 'Asia' AND p.loc = 'Asia'
