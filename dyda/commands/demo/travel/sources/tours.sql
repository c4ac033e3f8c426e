-- DS 2 of Figure 1: Tour(TourID, TourName, Age, Type, NoDays).
CREATE TABLE tour (tour_id integer PRIMARY KEY, tour_name text, age integer, type text, no_days integer);
