"""Random queues over random views: orders are legal, merges are minimal, arrival order is kept where it can be."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dyda.model.message import Change, DataUpdate
from scheduler import Consistency, Detection, MessageState, Queued, Schedule, Unit, ViewReads
from tests.unit.scheduler.builders import changed, drained, effect, queued, relation
from tests.unit.scheduler.naive import is_legal, legal_order, merged, pair_graph

SOURCES = ("a", "b", "c")
RELATIONS = tuple(f"{source}.{table}" for source in SOURCES for table in ("r", "s", "t"))
COLUMNS = ("x", "y", "z")
COMMANDS = ("DROP x", "DROP y", "DROP z", "ADD y", "REWRITE", "DROP", "TRUNCATE", "NOTHING")
RENAMES = ("RENAME x y", "RENAME y z", "RENAME z w", "RENAME TO r", "RENAME TO s", "RENAME TO u")

columns = st.one_of(st.none(), st.frozensets(st.sampled_from(COLUMNS)))


@st.composite
def view_reads(draw: st.DrawFn, name: str) -> ViewReads:
    used = draw(st.lists(st.sampled_from(RELATIONS), min_size=1, max_size=4, unique=True))
    return ViewReads(
        name,
        {relation(each): draw(columns) for each in used},
        frozenset(map(relation, draw(st.lists(st.sampled_from(used), max_size=1)))),
        {relation(each): draw(columns) for each in draw(st.lists(st.sampled_from(RELATIONS), max_size=1))},
        frozenset(map(relation, draw(st.lists(st.sampled_from(used), max_size=1)))),
    )


@st.composite
def message(draw: st.DrawFn, number: int, commands: Sequence[str], rarity: int) -> Queued:
    source = draw(st.sampled_from(SOURCES))
    tables = st.sampled_from(("r", "s", "t", "u"))
    changes: list[Change] = []
    for _ in range(draw(st.integers(1, 2))):
        name = f"{source}.{draw(tables)}"
        if draw(st.integers(0, rarity)):
            changes.append(DataUpdate(relation(name), draw(st.integers(0, 4)), 0))
        else:
            changes.append(changed(name, draw(st.sampled_from(commands))))
    return queued(number, changes)


@st.composite
def queues(draw: st.DrawFn, commands: Sequence[str] = COMMANDS) -> tuple[list[Queued], list[ViewReads]]:
    views = [draw(view_reads(f"v{index}")) for index in range(draw(st.integers(1, 3)))]
    rarity = draw(st.sampled_from((2, 6, 12)))
    return [draw(message(number, commands, rarity)) for number in range(1, draw(st.integers(1, 22)))], views


def units_of(units: Sequence[Unit]) -> list[frozenset[int]]:
    return [frozenset(unit.numbers) for unit in units]


@settings(max_examples=400, deadline=None)
@given(queues(COMMANDS + RENAMES))
def test_the_order_is_the_legal_one_nearest_to_arrival_and_merges_are_minimal(
    case: tuple[list[Queued], list[ViewReads]],
) -> None:
    queue, views = case
    graph = pair_graph(queue, views)
    schedule = Schedule(views, effect=effect)
    schedule.add(queue)
    planned = units_of(list(schedule.units(Consistency.COMPLETE, 1)))
    assert is_legal(planned, graph)
    assert set(planned) == merged(graph)
    assert planned == legal_order(graph)


@settings(max_examples=200, deadline=None)
@given(queues(), st.integers(1, 12))
def test_batches_are_stretches_of_the_legal_order(case: tuple[list[Queued], list[ViewReads]], batch_rows: int) -> None:
    queue, views = case
    order = [number for group in legal_order(pair_graph(queue, views)) for number in sorted(group)]
    schedule = Schedule(views, effect=effect)
    schedule.add(queue)
    units = list(schedule.units(Consistency.STRONG, batch_rows))
    assert [number for unit in units for number in unit.numbers] == order
    assert drained(schedule, Consistency.STRONG, batch_rows) == units


@settings(max_examples=200, deadline=None)
@given(queues(), st.data())
def test_the_result_does_not_depend_on_how_often_it_is_planned(
    case: tuple[list[Queued], list[ViewReads]], choice: st.DataObject
) -> None:
    """Messages one by one, with planning in between, and units consumed with and without planning anew."""
    queue, views = case
    at_once = Schedule(views, effect=effect)
    at_once.add(queue)
    one_by_one = Schedule(views, effect=effect)
    for each in queue:
        one_by_one.add([each])
        if choice.draw(st.booleans()):
            one_by_one.next_unit(Consistency.STRONG, choice.draw(st.integers(1, 20)))
    expected = list(at_once.units(Consistency.COMPLETE, 1))
    consumed = []
    while (unit := one_by_one.next_unit(Consistency.COMPLETE, 1)) is not None:
        consumed.append(unit)
        one_by_one.remove(unit.numbers)
        if choice.draw(st.booleans()):
            one_by_one.change_views([*views, ViewReads("another", {})])
            one_by_one.change_views(views)
    assert units_of(consumed) == units_of(expected)
    assert units_of(drained(at_once)) == units_of(expected)


@settings(max_examples=200, deadline=None)
@given(queues(), st.data())
def test_messages_that_arrive_while_units_are_consumed(
    case: tuple[list[Queued], list[ViewReads]], choice: st.DataObject
) -> None:
    """At every moment the next unit is the first of the legal order of what is in the queue then."""
    queue, views = case
    schedule = Schedule(views, effect=effect)
    present: list[Queued] = []
    coming = list(queue)
    while coming or len(schedule):
        if coming and (not len(schedule) or choice.draw(st.booleans())):
            present.append(coming.pop(0))
            schedule.add(present[-1:])
            continue
        unit = schedule.next_unit(Consistency.COMPLETE, 1)
        assert unit is not None
        assert frozenset(unit.numbers) == legal_order(pair_graph(present, views))[0]
        schedule.remove(unit.numbers)
        present = [each for each in present if each.number not in unit.numbers]


@settings(max_examples=200, deadline=None)
@given(queues(), st.data())
def test_held_messages_hold_what_depends_on_them_and_nothing_else(
    case: tuple[list[Queued], list[ViewReads]], choice: st.DataObject
) -> None:
    queue, views = case
    numbers = [each.number for each in queue]
    held = choice.draw(st.frozensets(st.sampled_from(numbers), max_size=3)) if numbers else frozenset()
    schedule = Schedule(views, choice.draw(st.sampled_from(Detection)), effect=effect)
    schedule.add(queue)
    for number in held:
        schedule.mark(number, MessageState.HELD)
    expected = legal_order(pair_graph(queue, views), held)
    if held or schedule.detection is Detection.PESSIMISTIC:
        assert units_of(list(schedule.units(Consistency.COMPLETE, 1))) == expected
        waiting = {each.number for each in schedule.waiting()}
        assert waiting == set(numbers) - {number for group in expected for number in group}
    for number in held:
        schedule.mark(number, MessageState.WAITING)
    assert {number for unit in drained(schedule) for number in unit.numbers} == set(numbers)


@settings(max_examples=200, deadline=None)
@given(queues(), st.data())
def test_observed_edges_are_edges_like_any_other(
    case: tuple[list[Queued], list[ViewReads]], choice: st.DataObject
) -> None:
    queue, views = case
    if not queue:
        return
    numbers = st.sampled_from([each.number for each in queue])
    observed = choice.draw(
        st.dictionaries(numbers, st.frozensets(st.sampled_from(list(map(relation, RELATIONS))), min_size=1), max_size=3)
    )
    schedule = Schedule(views, effect=effect)
    schedule.add(queue)
    for number, relations in observed.items():
        schedule.observe(number, relations)
    assert units_of(list(schedule.units(Consistency.COMPLETE, 1))) == legal_order(pair_graph(queue, views, observed))
