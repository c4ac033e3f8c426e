"""A program's fingerprint: the same for the same steps, whatever anything is called, and another for any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from tests.unit.vm.builders import relation
from tests.unit.vm.test_compile import ALL, VIEWS, program
from vm import JoinBlock, Program, compile_view, fingerprint


def renamed(text: str) -> Program:
    """The same view over relations and columns of other names, under other aliases."""

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return replace(relation(f"{source}.{table}", ["kk", "vv"]), oid=77)

    def types(number: int, block: JoinBlock) -> Sequence[str]:
        return ["integer"] * len(block.items)

    for table in "rstu":
        text = text.replace(f"{table}.k", f"{table}.kk").replace(f"{table}.v", f"{table}.vv")
        text = text.replace(f" a.{table} ", f" a.other_{table} ").replace(f" a.{table},", f" a.other_{table},")
    return compile_view(parse_view("another_name", text, resolve), types)


def test_a_rename_leaves_it_alone() -> None:
    for name in ("left join", "not in", "except", "three left joins", "not exists, any condition", "filter"):
        assert fingerprint(renamed(VIEWS[name])) == fingerprint(program(VIEWS[name])), name


def test_every_view_has_its_own() -> None:
    texts = [*VIEWS.values(), *(text for text, _ in ALL)]
    assert len({fingerprint(program(text)) for text in texts}) == len(texts)
    assert [fingerprint(program(text)) for text in texts] == [fingerprint(program(text)) for text in texts]


def test_every_part_of_a_step_counts() -> None:
    """States of one form, computed otherwise: as a compiler might that was changed."""
    found = program(VIEWS["left join, any condition"])
    first, last = found.steps[0], found.steps[-1]
    term = last.terms[-1]
    block = term.block
    others = [
        replace(last, terms=last.terms[:-1]),
        replace(last, terms=(*last.terms[:-1], replace(term, sign=-term.sign))),
        replace(last, terms=(*last.terms[:-1], replace(term, side=1))),
        replace(last, terms=(*last.terms[:-1], replace(term, block=replace(block, conjuncts=block.conjuncts[:-1])))),
        replace(last, terms=(*last.terms[:-1], replace(term, block=replace(block, items=block.items[::-1])))),
        replace(last, types=("BIGINT", "BIGINT")),
    ]
    programs = [found, *(Program("v", (first, other)) for other in others)]
    assert len({fingerprint(one) for one in programs}) == len(programs)


def test_how_plain_numerics_compute_counts_where_they_are_computed_with() -> None:
    """`[spark] numeric` decides how many digits a quotient has: sums of such quotients must not be mixed."""
    columns = [Column("k", PgType("integer", "integer"), 1), Column("x", PgType("numeric", "numeric"), 2)]
    known = Relation(RelationName("a", "public", "r"), 1, tuple(columns))

    def compiled(text: str, numeric: str) -> Program:
        definition = parse_view("v", text, lambda *name: known, plain_numeric=numeric)
        types = ["integer", "numeric(38,18)"]
        return compile_view(definition, lambda number, block: types[: len(block.items)], numeric, checked=True)

    for text in (
        "SELECT r.k, r.x / 3 AS y FROM a.r r",
        "SELECT r.k FROM a.r r WHERE r.x / 3 > 1",
        "SELECT r.k, sum(r.x / 3) AS y FROM a.r r GROUP BY r.k",
    ):
        first, second = (fingerprint(compiled(text, numeric)) for numeric in ("decimal(38,18)", "decimal(38,4)"))
        assert first != second, text
    passed = "SELECT r.k, r.x FROM a.r r"
    assert fingerprint(compiled(passed, "decimal(38,18)")) == fingerprint(compiled(passed, "decimal(38,4)"))


def test_the_time_zone_counts() -> None:
    found = program(VIEWS["left join"])
    assert fingerprint(found) == fingerprint(found, "UTC") != fingerprint(found, "Europe/Berlin")


def test_only_what_is_compiled_otherwise_by_now_was_revised() -> None:
    """A view that was built before fingerprints were kept is read again only if it must be."""
    assert [name for name in VIEWS if program(VIEWS[name]).revised] == []
    asked = "SELECT r.k FROM a.r r JOIN a.t t ON r.v = t.v WHERE EXISTS (SELECT 1 FROM a.s s WHERE s.k = r.k AND {})"
    assert not program(asked.format("s.v > r.v")).revised
    assert program(asked.format("s.v > 10 / r.v")).revised
