"""The checker itself: for each of its rules a history that keeps it and one that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recompute_oracle import printed
from tests.torture.checking import Violation, check, examine
from tests.torture.history import History, Position, Shape, Transaction
from tests.torture.recording import DIGEST
from tests.torture.shrinking import minimise
from tests.torture.states import key_of
from tests.unit.torture.builders import JOIN, SHAPES, Hand, R, S

BEGIN = ["(a,1)", "(b,1)"]
BOTH = ["(1,a,10)", "(2,b,20)"]


@pytest.fixture(scope="module")
def judge(module_database: Callable[[str], str]) -> str:
    return module_database("judge")


@pytest.fixture
def judged(judge: str) -> Callable[[Hand], list[Violation]]:
    return lambda hand: check(hand.history, judge)


Judged = Callable[[Hand], list[Violation]]


def only(violations: list[Violation], rule: str) -> Violation:
    assert [one.rule for one in violations] == [rule], "\n".join(map(str, violations))
    return violations[0]


# --- correctness


def test_extents_that_equal_their_definitions_at_their_positions_are_right(judged: Judged) -> None:
    hand = Hand()
    hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN))
    hand.did(101, "+(1,c)", "-(2,b)")
    hand.did(101, "+(1,10)", table=S)
    hand.commit(join=hand.view(["(1,a,10)", "(1,c,10)"] * 2, 102, 102, JOIN), count=hand.view(["(a,1)", "(c,1)"], 102))
    assert not judged(hand)


def test_a_row_too_many_is_told_with_the_smallest_history(judged: Judged) -> None:
    hand = Hand()
    hand.commit(join=hand.view(BOTH, 100, 100, JOIN))
    hand.did(101, "+(7,x)")
    hand.did(102, "+(1,c)")
    hand.did(103, "+(8,y)")
    hand.commit(join=hand.view([*BOTH, "(1,c,10)", "(1,c,10)"], 104, 100, JOIN))
    told = str(only(judged(hand), "correctness"))
    assert "view join: 1 row(s) too many: (1,c,10)" in told
    assert "(1,c,10) is there 2 times, should be once" in told
    assert "one 102: did +(1,c)" in told
    assert "one 101" not in told, "a transaction that does not matter"
    assert "two.public.s (id integer, n integer): (1,10)\n" in told, "the one row that matters"
    assert "as if one 102 were in it twice" in told
    assert told.endswith("seed 7: the command")


def test_an_update_that_is_missing_or_there_too_early_is_named(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, "-(2,b)")
    hand.commit(count=hand.view(BEGIN, 102))
    assert "as if one 101 were not in it" in str(only(judged(hand), "correctness"))
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, "-(2,b)")
    hand.did(102, "+(3,c)")
    hand.commit(count=hand.view(["(a,1)", "(c,1)"], 102))
    assert "as if one 102 were in it already" in str(only(judged(hand), "correctness"))


def test_definitions_are_judged_over_the_tables_that_had_these_names_then(judged: Judged) -> None:
    renamed = Shape("other", "q", (("id", "bigint"), ("label", "text")))
    followed = "SELECT q.label AS t, count(*) AS n FROM `one`.`other`.`q` AS q GROUP BY q.label"
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, schema=renamed)
    hand.commit(count=hand.view(BEGIN, 102, definition=followed, version=2))
    assert not judged(hand)
    hand.commit(count=hand.view(BEGIN, 102, version=3))
    assert "one had no such table at 102:102:" in str(only(judged(hand), "correctness"))


def test_a_view_that_is_left_behind_is_judged_by_the_names_that_the_catalog_has_by_now(judged: Judged) -> None:
    """Its text follows a rename with the others'; its rows and positions stay."""
    exchanged = Shape("public", "r", (("number", "integer"), ("label", "text")), (1, 2))
    joined = "SELECT r.number AS id, r.label AS t, s.n FROM one.r AS r JOIN two.s AS s ON r.number = s.id"
    counted = "SELECT r.label AS t, count(*) AS n FROM one.r AS r GROUP BY r.label"

    def history(rows: list[str]) -> Hand:
        hand = Hand()
        hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN))
        hand.did(101, "+(1,c)")
        hand.did(102, schema=exchanged)
        hand.commit(
            join=hand.view(rows, 100, 100, joined, version=2),
            count=hand.view([*BEGIN, "(c,1)"], 103, definition=counted, version=2),
            unreachable=("two",),
        )
        return hand

    assert not judged(history(BOTH))
    assert only(judged(history([*BOTH, "(1,c,10)"])), "correctness")


def test_a_definition_that_cannot_be_evaluated_is_told(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN, definition="SELECT r.gone FROM one.r AS r"))
    assert "PostgreSQL cannot evaluate it there: column r.gone does not exist" in str(only(judged(hand), "correctness"))


def test_synthetic_positions_leave_out_what_they_list_as_in_progress(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    early = hand.did(101, "+(3,a)")
    early.ended = 100.0  # its answer came late: the two were under way at the same time
    hand.did(102, "+(4,c)")
    hand.commit(count=hand.view([*BEGIN, "(c,1)"], "101:103:101"))
    hand.commit(count=hand.view(["(a,2)", "(b,1)", "(c,1)"], "103:103:"))
    assert not judged(hand)


# --- strong


def test_positions_never_go_back(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, "+(3,c)")
    hand.commit(count=hand.view([*BEGIN, "(c,1)"], 102))
    hand.commit(count=hand.view(BEGIN, 101))
    told = only(judged(hand), "strong")
    assert told.commit == 3
    assert "went back from one 102:102: to 101:101:: without one 101" in told.text


def test_a_position_names_a_state_that_the_source_had(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, "+(3,c)")
    hand.did(102, "+(4,d)")
    hand.commit(count=hand.view([*BEGIN, "(d,1)"], "101:103:101"))
    assert (
        "one 102 is in it and one 101, which had ended before that began, is not" in only(judged(hand), "strong").text
    )


def test_conflicts_on_a_row_order_transactions_even_if_no_clock_does(judged: Judged) -> None:
    hand = Hand()
    hand.commit(count=hand.view(BEGIN))
    for done in (hand.did(101, "-(1,a)", "+(1,c)"), hand.did(102, "-(1,c)", "+(1,d)")):
        done.began, done.ended = 0.0, 100.0
    hand.commit(count=hand.view(["(a,1)", "(b,1)", "(d,1)"], "101:103:101"))
    assert "one.public.r would have the row (1,c) less than zero times" in only(judged(hand), "strong").text


def test_views_of_one_commit_agree_where_they_are_maintained(judged: Judged) -> None:
    def history(**last: object) -> Hand:
        hand = Hand()
        hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN))
        hand.did(101, "+(3,c)")
        unreachable, waiting = last.pop("unreachable", ()), last.pop("waiting", ())
        hand.commit(
            join=hand.view(BOTH, 100, 100, JOIN, **last),  # type: ignore[arg-type]
            count=hand.view([*BEGIN, "(c,1)"], 102),
            unreachable=unreachable,  # type: ignore[arg-type]
            waiting=waiting,  # type: ignore[arg-type]
        )
        return hand

    assert "count and join stand at different states of one" in only(judged(history()), "strong").text
    assert not judged(history(state="held"))
    assert not judged(history(state="resync"))
    assert not judged(history(unreachable=("two",)))
    assert not judged(history(waiting=(("one", 101),))), "it waits for what the other has processed"
    assert "stand at different states of one" in only(judged(history(waiting=(("one", 99),))), "strong").text
    back = history(unreachable=("two",))
    back.commit(join=back.view(BOTH, 102, 100, JOIN), count=back.view([*BEGIN, "(c,1)"], 102))
    assert not judged(back)
    back.did(103, "+(3,c)")
    back.commit(join=back.view(BOTH, 102, 100, JOIN), count=back.view([*BEGIN, "(c,2)"], 104))
    assert "stand at different states of one" in only(judged(back), "strong").text


def test_only_a_view_that_reads_what_waits_has_a_reason_to_wait(judged: Judged) -> None:
    """A message of `two` waits. The join reads what it changes; the count has a position of `two` and reads no more."""
    hand = Hand()
    hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN, 100, 100), other=hand.view(BEGIN))
    hand.did(101, "+(3,30)", table=S)
    hand.did(102, "+(4,d)")
    join, moved = hand.view(BOTH, 100, 100, JOIN), [*BEGIN, "(d,1)"]
    hand.commit(join=join, count=hand.view(moved, 103, 100), other=hand.view(moved, 103), waiting=(("two", 101),))
    assert not judged(hand), "the join waits, and the others go on"
    hand.history.commits.pop()
    hand.commit(join=join, count=hand.view(BEGIN, 100, 100), other=hand.view(moved, 103), waiting=(("two", 101),))
    assert "count and other stand at different states of one" in only(judged(hand), "strong").text


def test_a_change_of_a_table_keeps_its_readers_together(judged: Judged) -> None:
    """The join waits for a message of `two`; the schema of `one`'s table has changed, which concerns the count, too."""

    def history(schema: bool) -> Hand:
        hand = Hand()
        hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN, 100), other=hand.view(BEGIN, 100))
        hand.did(101, "+(3,30)", table=S)
        hand.did(102, "+(4,d)", schema=replace(SHAPES[R]) if schema else None)
        hand.commit(
            join=hand.view(BOTH, 100, 100, JOIN),
            count=hand.view(BEGIN, 100),
            other=hand.view([*BEGIN, "(d,1)"], 103),
            waiting=(("two", 101),),
        )
        return hand

    assert not judged(history(schema=True))
    assert "count and other stand at different states of one" in only(judged(history(schema=False)), "strong").text


def test_a_view_that_has_lost_a_column_waits_until_its_table_is_rewritten(judged: Judged) -> None:
    wide, narrow = "SELECT r.id, r.t FROM one.r AS r", "SELECT r.id FROM one.r AS r"

    def history(moved: bool) -> Hand:
        """It loses the column with the others, and stays behind; `moved`: once it has moved it stays behind again."""
        hand = Hand()
        hand.commit(lost=hand.view(["(1,a)", "(2,b)"], definition=wide), count=hand.view(BEGIN))
        hand.did(101, "+(3,c)")
        three, four = [*BEGIN, "(c,1)"], [*BEGIN, "(c,1)", "(d,1)"]
        hand.commit(
            lost=hand.view(["(1)", "(2)", "(3)"], 102, definition=narrow, version=2), count=hand.view(three, 102)
        )
        hand.did(102, "+(4,d)")
        behind = hand.view(["(1)", "(2)", "(3)"], 102, definition=narrow, version=2)
        hand.commit(lost=behind, count=hand.view(four, 103))
        if moved:
            there = hand.view(["(1)", "(2)", "(3)", "(4)"], 103, definition=narrow, version=2)
            hand.commit(lost=there, count=hand.view(four, 103))
            hand.did(103, "-(4,d)")
            hand.commit(lost=there, count=hand.view(three, 104))
        return hand

    assert not judged(history(moved=False))
    found = only(judged(history(moved=True)), "strong").text
    assert "views count and lost stand at different states of one: 104:104: and 103:103:" in found


def test_what_is_held_is_kept_from_its_readers(judged: Judged) -> None:
    def history(held: bool, before: int = 100) -> Hand:
        hand = Hand()
        hand.did(101, "+(3,c)")
        hand.commit(count=hand.view(BEGIN if before == 100 else [*BEGIN, "(c,1)"], before))
        message = (("one", 101),)
        hand.commit(count=hand.view([*BEGIN, "(c,1)"], 102), waiting=message if held else (), held=message)
        return hand

    assert only(judged(history(held=True)), "waiting").text == "view count takes one 101, which an operator holds"
    assert not judged(history(held=False)), "it was released"
    assert not judged(history(held=True, before=102)), "the view had it before it was held"


def test_what_waits_for_approval_changes_no_view(judged: Judged) -> None:
    def history(waiting: tuple[tuple[str, int], ...]) -> Hand:
        hand = Hand()
        hand.commit(count=hand.view(BEGIN, 100))
        hand.did(101, schema=Shape("public", "r", (("id", "integer"), ("t", "text")), (1, 2)))
        hand.commit(
            count=hand.view(["(1)", "(2)"], 102, definition="SELECT r.id FROM one.r AS r", version=2), waiting=waiting
        )
        return hand

    assert "takes one 101, which waits, and becomes SELECT" in only(judged(history((("one", 101),))), "waiting").text
    assert not judged(history(()))


def test_a_view_is_unique_while_its_tables_have_keys(judged: Judged) -> None:
    index = ("CREATE UNIQUE INDEX i ON extent (id)",)
    definition, rows = "SELECT r.id, r.t FROM one.r AS r", ["(1,a)", "(2,b)"]

    def history(at: int, unique_on: tuple[str, ...] = index) -> Hand:
        hand = Hand()
        hand.history.keyed = {"v"}
        hand.did(101, schema=replace(SHAPES[R], keys=((1,),)))
        hand.did(102, schema=SHAPES[R])
        hand.commit(v=hand.view(rows, 102, definition=definition, unique_on=index))
        hand.commit(v=hand.view(rows, at, definition=definition, unique_on=unique_on))
        return hand

    assert not judged(history(102))
    assert not judged(history(103, ()))
    found = only(judged(history(103)), "keys").text
    assert "CREATE UNIQUE INDEX i ON extent (id)" in found
    assert "there is no key of one.public.r" in found


def test_what_no_view_reads_need_not_be_agreed_on(judged: Judged) -> None:
    hand = Hand()
    hand.did(101, "+(3,30)", table=S)
    hand.commit(count=hand.view(BEGIN, 100, 100), other=hand.view(BEGIN, 100, 102))
    hand.commit(count=hand.view(BEGIN, 100, 100), other=hand.view(BEGIN, 100, 102))
    assert not judged(hand)


# --- complete


def test_complete_takes_one_transaction_after_the_other(judged: Judged) -> None:
    hand = Hand("complete")
    hand.commit(count=hand.view(BEGIN), join=hand.view(BOTH, 100, 100, JOIN))
    hand.did(101, "+(3,c)")
    hand.did(102, "+(3,d)")
    first, second = [*BEGIN, "(c,1)"], [*BEGIN, "(c,1)", "(d,1)"]
    hand.commit(count=hand.view(first, 102), join=hand.view(BOTH, 102, 100, JOIN))
    hand.commit(count=hand.view(second, 103), join=hand.view(BOTH, 103, 100, JOIN))
    assert not judged(hand)
    hand = Hand("complete")
    hand.commit(count=hand.view(BEGIN), join=hand.view(BOTH, 100, 100, JOIN))
    hand.did(101, "+(3,c)")
    hand.did(102, "+(3,d)")
    hand.commit(count=hand.view(second, 103), join=hand.view(BOTH, 103, 100, JOIN))
    assert "takes 2 transactions at once: one 101, one 102" in only(judged(hand), "complete").text
    hand.history.mode = "strong"
    assert not judged(hand)


def test_complete_lets_a_schema_change_be_merged(judged: Judged) -> None:
    hand = Hand("complete")
    hand.commit(count=hand.view(BEGIN))
    hand.did(101, "+(3,c)")
    hand.did(102, schema=Shape("public", "r", (("id", "bigint"), ("t", "text"))))
    hand.commit(count=hand.view([*BEGIN, "(c,1)"], 103))
    assert not judged(hand)


def test_complete_lets_it_be_merged_for_a_view_that_is_left_behind(judged: Judged) -> None:
    """A TRUNCATE is merged with the data before it; its reader goes to a lane, and only the others move."""
    amounts, cleared = "SELECT s.n FROM two.s AS s", "SELECT q.n FROM two.q AS q"
    shape = Shape("public", "q", (("n", "integer"),), (1,))

    def went_on(reader: str) -> Hand:
        hand = Hand("complete")
        hand.history.add(Transaction("two", 0, 0, {}, {3: shape}))
        before = hand.view([], two=100, definition=reader)
        hand.commit(amounts=hand.view(["(10)", "(20)"], two=100, definition=amounts), other=before)
        hand.did(101, "+(3,30)", table=S)
        hand.did(102, "+(4,40)", table=S)
        hand.did(103, table=3, schema=shape)
        after = hand.view([], two=100, definition=reader, state="resync")
        rows = ["(10)", "(20)", "(30)", "(40)"]
        hand.commit(amounts=hand.view(rows, two=104, definition=amounts), other=after)
        return hand

    assert not judged(went_on(cleared))
    nobody_reads_it = judged(went_on("SELECT s.n FROM two.s AS s WHERE s.n > 100"))
    assert "takes 2 transactions at once: two 101, two 102" in only(nobody_reads_it, "complete").text


# --- readers


def moving() -> Hand:
    hand = Hand()
    hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN))
    hand.did(101, "+(1,c)")
    hand.commit(join=hand.view([*BOTH, "(1,c,10)"], 102, 100, JOIN), count=hand.view([*BEGIN, "(c,1)"], 102))
    return hand


OLD = {"join": BOTH, "count": BEGIN}
NEW = {"join": [*BOTH, "(1,c,10)"], "count": [*BEGIN, "(c,1)"]}


def test_statements_that_see_one_commit_each_are_right(judged: Judged) -> None:
    hand = moving()
    hand.read(OLD)
    hand.read(OLD, NEW, {"join": NEW["join"]})
    hand.read(OLD, reader="Bob")
    hand.read(NEW, {"count": NEW["count"]}, reader="Bob", isolation="REPEATABLE READ")
    assert not judged(hand)


def test_a_statement_that_mixes_two_commits_is_told(judged: Judged) -> None:
    hand = moving()
    hand.read({"join": OLD["join"], "count": NEW["count"]})
    told = str(only(judged(hand), "readers"))
    assert "join: 1\n" in told
    assert "count: 2\n" in told


def test_rows_of_no_commit_are_told(judged: Judged) -> None:
    hand = moving()
    hand.read({"count": []})
    assert "count: of no commit: no rows" in str(only(judged(hand), "readers"))


def test_nobody_goes_back(judged: Judged) -> None:
    hand = moving()
    hand.read(NEW)
    hand.read(OLD)
    assert "reader Ann went back: it has seen commit 2 and now sees commit 1" in only(judged(hand), "readers").text


def test_a_transaction_from_repeatable_read_up_sees_one_commit(judged: Judged) -> None:
    hand = moving()
    hand.read(OLD, NEW, isolation="REPEATABLE READ")
    assert "statement 2 sees view join changed" in only(judged(hand), "readers").text
    hand = moving()
    hand.read({"join": OLD["join"]}, {"count": NEW["count"]}, isolation="SERIALIZABLE")
    assert "saw views of different commits" in only(judged(hand), "readers").text


# --- nothing lost, nothing doubled


def test_at_rest_nothing_is_left(judged: Judged) -> None:
    hand = moving()
    hand.rest(one=0, two=0)
    assert not judged(hand)
    hand.did(103, "+(5,e)")
    told = [one.text for one in judged(hand)]
    assert told == [f"view {name} stands at one 102:102:, without one 103" for name in ("join", "count")]
    hand = moving()
    hand.rest(queue=2, one=0)
    assert only(judged(hand), "nothing lost").text == "2 message(s) are still in the queue"
    hand = moving()
    hand.rest(one=3)
    assert only(judged(hand), "nothing lost").text == "3 entries are still in the log of one"


def test_a_view_that_waits_is_not_at_rest(judged: Judged) -> None:
    hand = moving()
    hand.commit(join=hand.view(NEW["join"], 102, 100, JOIN, state="resync"), count=hand.view(NEW["count"], 102))
    hand.rest()
    assert only(judged(hand), "nothing lost").text == "view join is still resync"


# --- frozen, counts, alive, one writer


def test_a_broken_view_keeps_the_rows_that_it_broke_with(judged: Judged) -> None:
    def history(rows: list[str]) -> Hand:
        hand = moving()
        hand.did(103, "-(1,c)")
        hand.commit(join=hand.view(NEW["join"], 102, 100, JOIN, state="broken"), count=hand.view(BEGIN, 104))
        hand.commit(join=hand.view(rows, 102, 100, JOIN, state="broken"), count=hand.view(BEGIN, 104))
        return hand

    assert not judged(history(NEW["join"]))
    told = judged(history(OLD["join"]))
    assert "view join is broken, and its rows changed: 1 row(s) missing: (1,c,10)" in told[0].text
    assert told[0].rule == "frozen"


def test_counts_that_do_not_add_up_are_told_although_the_view_is_built_anew(judged: Judged) -> None:
    hand = moving()
    waiting = hand.view(NEW["join"], 102, 100, JOIN, state="resync")
    detail = "view join: this change would give 1 row(s) of the operator state a negative count, e.g. (7)"
    moved = {"kind": "relation_drifted", "source": "one", "relation": "one.public.r", "drift": "rows_unseen"}
    hand.commit(join=replace(waiting, cause=moved), count=hand.view(NEW["count"], 102))
    assert not judged(hand)
    below = {"kind": "negative_count", "detail": detail}
    hand.commit(join=replace(waiting, cause=below), count=hand.view(NEW["count"], 102))
    hand.commit(join=hand.view(NEW["join"], 102, 100, JOIN), count=hand.view(NEW["count"], 102))
    assert only(judged(hand), "counts").text == f"view join is resync: {detail}"


def test_a_view_must_not_break_because_its_text_was_left_behind(judged: Judged) -> None:
    def history(detail: str) -> Hand:
        hand = moving()
        broken = hand.view(NEW["join"], 102, 100, JOIN, state="broken")
        cause = {"kind": "schema_changed", "detail": detail}
        hand.commit(join=replace(broken, cause=cause), count=hand.view(NEW["count"], 102))
        return hand

    assert not judged(history("one.r: column v was dropped"))
    detail = "views/join.sql, line 1: there is no column 'v' here; r has: id, w"
    assert detail in only(judged(history(detail)), "alive").text


def test_whoever_commits_holds_the_lock(judged: Judged) -> None:
    hand = moving()
    hand.commit(4, 4, join=hand.view(NEW["join"], 102, 100, JOIN), count=hand.view(NEW["count"], 102))
    assert not judged(hand)
    hand.commit(1, 4, join=hand.view(NEW["join"], 102, 100, JOIN), count=hand.view(NEW["count"], 102))
    assert "session 1 committed while session 4 held" in only(judged(hand), "one writer").text


# --- the parts


def test_a_history_survives_json(judged: Judged, tmp_path: Path) -> None:
    hand = moving()
    hand.did(103, "+(5,e)", schema=Shape("public", "r", (("id", "bigint"), ("t", "text"))))
    hand.read(OLD)
    hand.rest(one=1)
    hand.history.save(tmp_path / "history.json")
    loaded = History.load(tmp_path / "history.json")
    for part in ("transactions", "commits", "reads", "rest", "bags", "seed", "command", "mode"):
        assert getattr(loaded, part) == getattr(hand.history, part)
    assert [str(one) for one in judged(hand)] != []


def test_thousands_of_commits_are_few_evaluations(judge: str) -> None:
    """An answer is kept by definition and states: views that a commit does not concern cost nothing."""
    hand = Hand()
    hand.commit(join=hand.view(BOTH, 100, 100, JOIN), count=hand.view(BEGIN))
    for number in range(300):
        hand.did(101 + number, f"+({9 + number},9)", table=S)
        hand.commit(join=hand.view(BOTH, 100, 102 + number, JOIN), count=hand.view(BEGIN))
    report = examine(hand.history, judge)
    assert not report.violations
    assert (report.compared, report.evaluated) == (602, 302)


def test_a_digest_is_the_same_in_sql(judge: str) -> None:
    rows = ["(1,a)", "(1,a)", '(2,"ä b")']
    name = History().keep(rows)
    (found,) = printed(judge, f"SELECT {DIGEST} FROM (VALUES ('(1,a)'), ('(1,a)'), ('(2,\"ä b\")')) v(line)")
    assert found == name


@pytest.mark.parametrize(
    ("position", "expected"),
    [("5:5:", (2, ())), ("1:1:", (0, ())), ("9:9:", (4, ())), ("3:7:3", (1, (2,))), ("2:9:4", (2, (3,)))],
)
def test_states_are_named_by_what_is_in_them(position: str, expected: tuple[int, tuple[int, ...]]) -> None:
    xids = {"3:7:3": [2, 3, 4, 8], "2:9:4": [2, 3, 4, 8]}.get(position, [2, 4, 6, 8])
    assert key_of(xids, Position.parse(position)) == expected


def test_minimising_keeps_what_matters() -> None:
    assert minimise(list(range(100)), lambda some: {17, 63} <= set(some), float("inf")) == [17, 63]
    assert minimise(list(range(8)), lambda some: True, float("inf")) == []
    assert minimise(list(range(8)), lambda some: len(some) == 8, float("inf")) == list(range(8))
    assert minimise(list(range(8)), lambda some: True, 0.0) == list(range(8)), "no time, nothing minimised"
