"""Paper 001, Sections 4.4 and 6.5: the travel view is rewritten to Equations (3), (4) and (6), up to aliases."""

from __future__ import annotations

from dyda.model.algebra.nodes import conjuncts, scans
from tests.projection import projection
from tests.unit.vs.case import TRAVEL, judge
from vs import Rewritten

VIEW = """
-- dyda: extent = any, new_columns = ignore
SELECT c.name /* replaceable */, f.age /* replaceable */, f.flight_no, f.dest
FROM crm.customer c /* replaceable */
JOIN booking.flight_res f ON c.name = f.name /* replaceable */
WHERE f.dest = 'Asia' /* dispensable */
"""

KNOWLEDGE = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name"

[[containment]]
of = "crm.customer(name)"
is = "subset"
in = "people.participant(participant)"

[[function]]
attribute = "booking.flight_res.age"
equals = "tours.tour.age"
"""

DROP_CUSTOMER = "DROP TABLE crm.customer;"
DROP_AGE = "ALTER TABLE booking.flight_res DROP COLUMN age;"


def rewritten(change: str) -> Rewritten:
    judgement, _ = judge(VIEW, TRAVEL, change, KNOWLEDGE)
    assert isinstance(judgement, Rewritten), judgement
    return judgement


def select(judgement: Rewritten) -> dict[str, str]:
    return {item.name: item.expression.sql for item in projection(judgement.definition).items}


def tables(judgement: Rewritten) -> list[tuple[str, str]]:
    return [(str(scan.relation.name), scan.alias) for scan in scans(judgement.definition.tree)]


def where(judgement: Rewritten) -> set[str]:
    return {condition.sql for condition in conjuncts(judgement.definition.tree)}


def test_equation_3() -> None:
    judgement = rewritten(DROP_CUSTOMER)
    assert select(judgement) == {
        "name": "`participant`.`participant`",
        "age": "`f`.`age`",
        "flight_no": "`f`.`flight_no`",
        "dest": "`f`.`dest`",
    }
    assert tables(judgement) == [("people.public.participant", "participant"), ("booking.public.flight_res", "f")]
    assert where(judgement) == {"`participant`.`participant` = `f`.`name`", "`f`.`dest` = 'Asia'"}
    assert judgement.extent == "superset"
    assert judgement.cost == 1
    assert judgement.reason == "keeps name (through people.participant), extent superset"


def test_equation_4() -> None:
    judgement = rewritten(DROP_AGE)
    assert select(judgement) == {
        "name": "`c`.`name`",
        "age": "`tour`.`age`",
        "flight_no": "`f`.`flight_no`",
        "dest": "`f`.`dest`",
    }
    assert tables(judgement) == [
        ("crm.public.customer", "c"),
        ("booking.public.flight_res", "f"),
        ("tours.public.tour", "tour"),
    ]
    assert where(judgement) == {
        "`c`.`name` = `f`.`name`",
        "`f`.`dest` = 'Asia'",
        "`f`.`name` = `tour`.`tour_name`",
    }
    assert judgement.extent == "subset", "the function constraint speaks of the rows that meet"
    assert judgement.cost == 2
    assert judgement.reason == "keeps age (through tours.tour), extent subset, one more relation to query"


def test_equation_6() -> None:
    judgement = rewritten(DROP_CUSTOMER + DROP_AGE)
    assert select(judgement) == {
        "name": "`participant`.`participant`",
        "age": "`tour`.`age`",
        "flight_no": "`f`.`flight_no`",
        "dest": "`f`.`dest`",
    }
    assert tables(judgement) == [
        ("people.public.participant", "participant"),
        ("booking.public.flight_res", "f"),
        ("tours.public.tour", "tour"),
    ]
    assert where(judgement) == {
        "`participant`.`participant` = `f`.`name`",
        "`f`.`dest` = 'Asia'",
        "`f`.`name` = `tour`.`tour_name`",
    }
    assert judgement.extent == "unknown", "one change can only add rows, the other can only lose some"
    assert judgement.reason == (
        "keeps name (through people.participant), keeps age (through tours.tour), extent unknown,"
        " one more relation to query"
    )


def test_equation_6_comes_out_whichever_change_is_named_first() -> None:
    assert rewritten(DROP_AGE + DROP_CUSTOMER) == rewritten(DROP_CUSTOMER + DROP_AGE)
