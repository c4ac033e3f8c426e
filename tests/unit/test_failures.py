"""Errors that come back from Spark as text: ours are restored, and a row that looks like one stays a row."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import pytest

from dyda.engine.task_errors import MARK, encoded, raise_again
from dyda.errors import BrokenUnit, EvaluationFailed, ValueDoesNotFit
from dyda.sources.reading.copy import ReadFailed


@pytest.mark.parametrize(
    "error",
    [
        ValueDoesNotFit("crm.t", "a", "1e400", "decimal(38,18)"),
        ReadFailed("reading crm.t: gone", "42P01", "crm", "crm.t"),
        BrokenUnit("crm", frozenset({"crm.a", "crm.b"}), "moved"),
    ],
)
def test_our_own_errors_come_back_as_they_were(error: Exception) -> None:
    shipped = encoded(error, MARK)
    with pytest.raises(type(error)) as caught:
        raise_again(RuntimeError(f"Job aborted\n  {shipped}\n  at …"), "v")
    assert vars(caught.value) == vars(error)
    assert str(caught.value) == str(error)


class Attack:
    """What a pickle does when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("mark", ["dyda-error:", "dyda-error-0123:"])
def test_a_value_that_looks_like_an_error_of_ours_is_only_shown(tmp_path: Path, mark: str) -> None:
    """Spark quotes the value that it cannot cast. Read as a pickle, it ran what the source's row said."""
    forged = json.dumps(["dyda.errors", "SourceUnreachable", ["x"], {}]).encode()
    for state in (pickle.dumps(Attack(tmp_path / "ran")), forged):
        value = mark + base64.b64encode(state).decode() + ";"
        text = (
            f'[CAST_INVALID_INPUT] The value \'{value}\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018'
        )
        with pytest.raises(EvaluationFailed) as caught:
            raise_again(RuntimeError(text), "v")
        assert value in str(caught.value)
    assert not (tmp_path / "ran").exists()
