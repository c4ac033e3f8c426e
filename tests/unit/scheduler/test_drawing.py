"""The dependency graph as text and in dot."""

from __future__ import annotations

from scheduler import DrawnEdge, EdgeKind, MessageState, Schedule, dot, text
from tests.unit.scheduler.builders import data, effect, schema, view


def pending() -> Schedule:
    schedule = Schedule([view("v", "a.r(x)", "b.s(x)"), view("w", "c.t(x)")], effect=effect)
    schedule.add([data(1, "a.r"), data(2, "b.s"), schema(3, "b.s", "DROP x"), data(4, "c.t"), data(5, "d.u")])
    schedule.mark(4, MessageState.HELD)
    return schedule


def test_what_is_drawn() -> None:
    drawing = pending().drawing()
    assert [(node.number, node.kind, node.state) for node in drawing.nodes] == [
        (1, "data", MessageState.WAITING),
        (2, "data", MessageState.WAITING),
        (3, "schema", MessageState.WAITING),
        (4, "data", MessageState.HELD),
        (5, "data", MessageState.WAITING),
    ]
    assert [node.concerned for node in drawing.nodes] == [True, True, True, True, False]
    assert drawing.edges == (
        DrawnEdge(3, 1, EdgeKind.CONCURRENCY, "processing 1 would query b.public.s, and message 3 drops column x"),
        DrawnEdge(2, 3, EdgeKind.SEMANTIC, "3 came after 2 from source b"),
    )
    assert drawing.groups == ()


def test_merged_groups() -> None:
    schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
    schedule.add([schema(1, "a.r", "DROP x"), schema(2, "b.s", "DROP x"), data(3, "a.r")])
    drawing = schedule.drawing()
    assert drawing.groups == ((1, 2),)
    assert "merged: 1 and 2" in text(drawing)
    assert "subgraph cluster_0" in dot(drawing)


def test_text_says_what_waits_for_what_and_why() -> None:
    assert text(pending().drawing()) == (
        "1  a  data  +1 −0 a.public.r\n"
        "    <╌╌ 3  concurrency: processing 1 would query b.public.s, and message 3 drops column x\n"
        "2  b  data  +1 −0 b.public.s\n"
        "3  b  schema  b.public.s: drops column x\n"
        "    <── 2  semantic: 3 came after 2 from source b\n"
        "4  c  data [held]  +1 −0 c.public.t\n"
        "5  d  data  +1 −0 d.public.u (concerns no view)\n"
    )
    assert text(Schedule().drawing()) == "no messages\n"


def test_names_are_shown_and_never_sent_to_a_terminal() -> None:
    schedule = Schedule([view("v", "a.r\x1b\n9  z(x)", "b.s(x)")], effect=effect)
    schedule.add([data(1, "a.r\x1b\n9  z"), data(2, "b.s")])
    assert text(schedule.drawing()).splitlines()[0] == r"1  a  data  +1 −0 a.public.`r\x1b\n9  z`"
    assert "\x1b" not in dot(schedule.drawing())


def test_dot_draws_the_two_kinds_apart_and_quotes_names() -> None:
    schedule = Schedule([view("v", 'a.r"\\n(x)', "b.s(x)")], effect=effect)
    schedule.add([data(1, 'a.r"\\n'), data(2, "b.s"), schema(3, "b.s", "DROP x")])
    drawn = dot(schedule.drawing())
    assert "m3 -> m1 [style=dashed" in drawn
    assert "m2 -> m3 [style=solid" in drawn
    assert '`r\\"\\\\n`' in drawn
    assert drawn.count("{") == drawn.count("}")
