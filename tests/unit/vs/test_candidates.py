"""S2: scheduling must reckon with every relation that a rewriting might read."""

from __future__ import annotations

from dyda.model.preferences import Preference
from tests.unit.vs.case import TRAVEL, full, knowledge, view
from vs import Defaults, candidate_relations

KNOWN = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name"

[[containment]]
of = "tours.tour(tour_id)"
is = "superset"
in = "people.participant(tour_id)"
"""

FLIGHT, TOUR, PARTICIPANT = (full(name) for name in ("booking.flight_res", "tours.tour", "people.participant"))


def test_S2_a_view_that_may_not_be_rewritten_reads_its_own_relations() -> None:
    definition = view("SELECT f.name FROM booking.flight_res f", TRAVEL)
    assert candidate_relations(definition, knowledge(KNOWN, TRAVEL)) == {FLIGHT}


def test_S2_one_that_may_be_reads_what_the_knowledge_connects() -> None:
    for mark in ("/* replaceable */", "/* dispensable */"):
        definition = view(f"SELECT f.name, f.age {mark} FROM booking.flight_res f", TRAVEL)
        assert candidate_relations(definition, knowledge(KNOWN, TRAVEL)) == {FLIGHT, TOUR, PARTICIPANT}
        assert candidate_relations(definition, knowledge("", TRAVEL)) == {FLIGHT}


def test_S2_the_defaults_count() -> None:
    definition = view("SELECT f.name FROM booking.flight_res f", TRAVEL)
    defaults = Defaults(Preference(replaceable=True))
    assert candidate_relations(definition, knowledge(KNOWN, TRAVEL), defaults) == {FLIGHT, TOUR, PARTICIPANT}


def test_S2_what_nothing_connects_is_not_read() -> None:
    definition = view("SELECT c.name /* replaceable */ FROM crm.customer c", TRAVEL)
    assert candidate_relations(definition, knowledge(KNOWN, TRAVEL)) == {full("crm.customer")}


def test_S2_a_view_over_a_view_reads_what_that_one_may_come_to_read() -> None:
    lower = view("SELECT f.name /* replaceable */ FROM booking.flight_res f", TRAVEL, "lower")
    upper = view("SELECT l.name, count(*) AS n FROM lower l GROUP BY l.name", TRAVEL, "upper", {"lower": lower})
    assert candidate_relations(upper, knowledge(KNOWN, TRAVEL)) == {FLIGHT, TOUR, PARTICIPANT}
