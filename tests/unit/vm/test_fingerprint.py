"""A program's fingerprint: the same for the same steps, whatever anything is called, and another for any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyda.model.parse import parse_view
from dyda.model.relation import Relation
from tests.unit.vm.hand import relation
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
    texts = [*VIEWS.values(), *ALL.values()]
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


def test_only_what_is_compiled_otherwise_by_now_was_revised() -> None:
    """A view that was built before fingerprints were kept is read again only if it must be."""
    assert [name for name in VIEWS if program(VIEWS[name]).revised] == []
    asked = "SELECT r.k FROM a.r r JOIN a.t t ON r.v = t.v WHERE EXISTS (SELECT 1 FROM a.s s WHERE s.k = r.k AND {})"
    assert not program(asked.format("s.v > r.v")).revised
    assert program(asked.format("s.v > 10 / r.v")).revised
