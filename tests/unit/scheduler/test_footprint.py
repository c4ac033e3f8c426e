"""What messages read and change, as far as views care."""

from __future__ import annotations

from dyda.model.message import SchemaChange, Truncation
from scheduler import Columns, Footprint, Footprints, Queued, ViewReads
from scheduler.footprint import effect_of, shape_of
from tests.unit.scheduler.builders import data, effect, queued, relation, schema, view


def footprint(views: list[ViewReads], message: Queued, *pending: Queued) -> Footprint:
    changes = [change for each in (*pending, message) for change in each.message.changes]
    return Footprints(views, changes, effect).of(shape_of(message.message))


def reads(found: Footprint) -> dict[str, Columns]:
    return {f"{name.source}.{name.table}": columns for name, columns in found.reads.items()}


TWO = view("v", "a.r(x,y)", "b.s(z)")


def test_a_data_update_reads_the_other_relations_of_its_views() -> None:
    other = view("w", "a.r(x)", "b.s(w)", "c.t(x)")
    found = footprint([TWO, other], data(1, "a.r"))
    assert reads(found) == {"b.s": frozenset({"z", "w"}), "c.t": frozenset({"x"})}
    assert found.views == {"v", "w"}
    assert not found.schema


def test_a_data_update_reads_its_own_relation_only_where_the_plan_rereads_it() -> None:
    assert reads(footprint([view("v", "a.r(x)", rereads="a.r")], data(1, "a.r"))) == {"a.r": frozenset({"x"})}
    assert reads(footprint([view("v", "a.r(x)")], data(1, "a.r"))) == {}


def test_a_schema_change_reads_what_adaptation_may_read() -> None:
    with_candidate = view("v", "a.r(x,y)", "b.s(z)", candidates=["c.t(x)"])
    found = footprint([with_candidate], schema(1, "a.r", "DROP x"))
    assert reads(found) == {"a.r": frozenset({"x", "y"}), "b.s": frozenset({"z"}), "c.t": frozenset({"x"})}


def test_metadata_and_unused_columns_are_answered_without_reading() -> None:
    for command in ("RENAME x w", "RENAME TO t", "DROP unused", "ADD new", "NOTHING"):
        found = footprint([TWO], schema(1, "a.r", command))
        assert reads(found) == {}
        assert found.concerned


def test_a_new_column_concerns_a_view_that_appends_it() -> None:
    found = footprint([view("v", "a.r(x)", "b.s(z)", appends="a.r")], schema(1, "a.r", "ADD new"))
    assert set(reads(found)) == {"a.r", "b.s"}


def test_truncation_and_unknown_changes_concern_every_reader() -> None:
    name = relation("a.r")
    for change in (Truncation(name), SchemaChange(name, "ALTER TABLE")):
        found = Footprints([TWO], [change]).of((change,))
        assert found.schema == {name: None}
        assert set(reads(found)) == {"a.r", "b.s"}
        assert (described := effect_of(change)) is not None
        assert described.columns is None


def test_a_mixed_message_does_both() -> None:
    found = footprint([TWO, view("w", "a.q(x)", "c.t(x)")], schema(1, "a.r", "RENAME x w", "a.q"))
    assert reads(found) == {"c.t": frozenset({"x"})}
    assert found.schema == {relation("a.r"): frozenset({"x", "w"})}


def test_a_message_for_no_view_has_an_empty_footprint() -> None:
    for message in (data(1, "a.other"), schema(1, "a.other", "DROP")):
        found = footprint([TWO], message)
        assert not found.concerned
        assert not found.reads
        assert not found.schema


def test_a_candidate_keeps_its_source_in_order_but_reads_nothing() -> None:
    views = [view("v", "a.r(x)", candidates=["c.t(x)"])]
    found = footprint(views, data(1, "c.t"))
    assert found.concerned
    assert not found.reads


def test_names_that_pending_renames_connect_are_one_relation() -> None:
    """The view says a.r; the table is called q by now. A drop of q's column concerns the view."""
    rename = schema(1, "a.r", "RENAME TO q")
    found = footprint([TWO], schema(2, "a.q", "DROP x"), rename)
    assert found.schema == {relation("a.r"): frozenset({"x"})}
    assert set(reads(found)) == {"a.r", "b.s"}
    assert footprint([TWO], data(2, "a.q"), rename).concerned
    assert not footprint([TWO], data(2, "a.q")).concerned


def test_columns_that_pending_renames_connect_are_one_column() -> None:
    chain = [schema(1, "a.r", "RENAME x w"), schema(2, "a.r", "RENAME w u")]
    assert set(reads(footprint([TWO], schema(3, "a.r", "DROP u"), *chain))) == {"a.r", "b.s"}
    assert reads(footprint([TWO], schema(3, "a.r", "DROP u"))) == {}


def test_a_column_and_its_relation_renamed() -> None:
    chain = [schema(1, "a.r", "RENAME TO q"), schema(2, "a.q", "RENAME x w")]
    assert set(reads(footprint([TWO], schema(3, "a.q", "DROP w"), *chain))) == {"a.r", "b.s"}


def test_an_empty_message_concerns_nothing() -> None:
    message = queued(1, data(1, "a.r").message.changes)
    assert shape_of(message.message) == frozenset({relation("a.r")})
    assert not Footprints([TWO]).of(frozenset()).concerned
