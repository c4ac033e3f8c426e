"""What a view cannot have is refused by name, with its line and what to write instead.

The cases are data: fixtures/refusals/*.sql. A case is `--# title`, the view, and the whole message after `--> `.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dyda.errors import DydaError
from dyda.model.parse import parse_view, referenced_tables

FOLDER = Path(__file__).parents[3] / "fixtures" / "refusals"


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(FOLDER.glob("*.sql")):
        for case in re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, rest = case.partition("\n")
            view = re.split(r"^--> ", rest, maxsplit=1, flags=re.MULTILINE)[0].removesuffix("\n")
            message = "\n".join(re.findall(r"^--> (.*)$", rest, flags=re.MULTILINE))
            found.append(pytest.param(view, message, id=f"{path.stem}: {title}"))
    assert len(found) > 100
    return found


@pytest.mark.parametrize(("view", "message"), cases())
def test_refused_with_construct_line_and_alternative(view, message, resolve):
    with pytest.raises(DydaError) as refused:
        parse_view("v", view, resolve)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["clauses", "joins", "statements"])
def test_the_outline_alone_refuses_constructs_without_asking_a_source(name):
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    if name == "joins":
        text = text.partition("--# ON sees only")[0]  # from there on columns decide
    if name == "statements":
        text = text.partition("--# no operand")[0]
    for case in re.split(r"^--# .*\n", text, flags=re.MULTILINE)[1:]:
        view, message = re.split(r"^--> ", case, maxsplit=1, flags=re.MULTILINE)
        with pytest.raises(DydaError) as refused:
            referenced_tables("v", view.removesuffix("\n"))
        assert message.startswith(refused.value.what)
