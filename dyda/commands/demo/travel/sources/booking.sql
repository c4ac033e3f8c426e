-- DS 4 of Figure 1: FlightRes(Name, Age, FlightNo, Dest). No key: duplicates may happen, and they count.
CREATE TABLE flight_res (name text, age integer, flight_no text, dest text);
CREATE INDEX ON flight_res (name);
