"""The mutants still mean something: each edit finds its text once, each section has one, each scenario exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.torture.mutants import COPIED, ROOT, Played, verdict
from tests.torture.mutations import MUTANTS, SECTIONS, Mutant
from tests.torture.scenarios import SCENARIOS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_an_edit_of_the_code_as_it_is(mutant: Mutant, tmp_path: Path) -> None:
    assert mutant.scenario in SCENARIOS
    for edit in mutant.edits:
        assert edit.file.split("/")[0] in COPIED
        copy = tmp_path / edit.file
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text((ROOT / edit.file).read_text())
        edit.apply(tmp_path)
        assert copy.read_text() != (ROOT / edit.file).read_text()
        if edit.file.endswith(".py"):
            ast.parse(copy.read_text())


def test_a_text_that_is_not_there_is_told(tmp_path: Path) -> None:
    edit = MUTANTS[0].edits[0]
    (tmp_path / edit.file).parent.mkdir(parents=True)
    (tmp_path / edit.file).write_text("something else")
    with pytest.raises(ValueError, match="is there 0 times, not once"):
        edit.apply(tmp_path)


def test_every_section_has_a_mutant_and_every_mutant_its_own_name() -> None:
    assert {mutant.section for mutant in MUTANTS} == set(SECTIONS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 22
    assert {mutant.scenario for mutant in MUTANTS} == set(SCENARIOS), "a scenario without a mutant proves nothing"


def test_only_a_violation_counts_as_caught() -> None:
    mutant = MUTANTS[0]
    assert verdict(mutant, Played({mutant.scenario: []}, "", 1.0)).split()[0] == "SURVIVED"
    assert verdict(mutant, Played({mutant.scenario: None}, "", 1.0)).split()[0] == "SURVIVED"
    assert verdict(mutant, Played({mutant.scenario: ["strong", "strong"]}, "", 1.0)) == "caught (strong)"
