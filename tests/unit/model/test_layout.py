"""Which of several keys a view's layout has, and what comes and goes between two layouts."""

from __future__ import annotations

from dyda.model.layout import Layout, LayoutChange, LayoutEvent, layout_changes, layout_of
from dyda.model.relation import RelationName
from tests.unit.model.test_derived_keys import parsed

TYPES = {"id": "integer", "email": "text", "name": "text"}
QUERY = "SELECT c.id, c.email, c.name FROM shop.customer c"
NUMERIC = "decimal(38,18)"


def layout(header: str = "", **more: object) -> Layout:
    return layout_of(parsed(f"{header}\n{QUERY}"), TYPES, NUMERIC, **more)  # type: ignore[arg-type]


def test_the_declared_key_comes_first_then_the_one_by_which_rows_are_stored() -> None:
    assert layout() == Layout(("id",))
    assert layout(before=Layout(("email",))) == Layout(("email",)), "another key is no reason to store rows anew"
    assert layout(before=Layout(("id", "name"))) == Layout(("id", "name"))
    assert layout(before=Layout(("name",))) == Layout(("id",)), "that one is not proven"
    assert layout(before=Layout(("gone",))) == Layout(("id",))
    assert layout("-- dyda: key = (email)", before=Layout(("id",))) == Layout(("email",), ("email",))
    assert layout("-- dyda: key = (name), index = (name)") == Layout(("id",), ("name",), (("name",),))


def test_a_key_needs_a_type_that_an_index_compares_by_value() -> None:
    definition = parsed(QUERY)
    assert layout_of(definition, TYPES | {"id": "real"}, NUMERIC).key == ("email",)
    assert layout_of(definition, TYPES | {"id": "real", "email": "bpchar"}, NUMERIC).key is None


def test_the_keys_of_a_later_state_prove_nothing() -> None:
    assert layout(untrusted=frozenset({RelationName("shop", "public", "customer")})) == Layout()


def test_what_came_and_what_went() -> None:
    before = Layout(("id",), ("email",), (("a",), ("b", "c")))
    after = Layout((), None, (("b", "c"), ("d",)))
    assert layout_changes(before, after) == (
        LayoutChange(LayoutEvent.KEY_UNPROVEN, ("id",)),
        LayoutChange(LayoutEvent.KEY_PROVEN, ()),
        LayoutChange(LayoutEvent.KEY_LOST, ("email",)),
        LayoutChange(LayoutEvent.INDEX_LOST, ("a",)),
        LayoutChange(LayoutEvent.INDEX_DECLARED, ("d",)),
    )
    assert layout_changes(before, before) == ()
