"""The demo leaves nothing behind, whenever it is ended."""

from __future__ import annotations

import signal

import pytest

from dyda.commands.demo.run import _signals_later


class Ended(BaseException):
    """What a signal raises."""


def test_a_process_that_is_being_started_is_known_before_a_signal_is_obeyed() -> None:
    def end(number: int, frame: object) -> None:
        raise Ended

    known = []

    def start() -> None:
        with _signals_later():
            signal.raise_signal(signal.SIGTERM)
            known.append("the process")

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Ended):
            start()
        assert known
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
