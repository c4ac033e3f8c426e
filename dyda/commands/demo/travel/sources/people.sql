-- DS 3 of Figure 1: Participant(Participant, TourID, StartDate, Loc). No key: duplicates may happen, and they count.
CREATE TABLE participant (participant text, tour_id integer, start_date date, loc text);
CREATE INDEX ON participant (participant);
CREATE INDEX ON participant (tour_id);
