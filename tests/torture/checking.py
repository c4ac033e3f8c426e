"""The checker: what must hold of a history, judged by PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

from tests.torture.history import History

__all__ = ["RULES", "Violation", "check"]

RULES = {
    "correctness": "each committed extent equals its definition at its positions",
    "strong": "positions only move forward, through states that the source had, and all views of a commit agree",
    "complete": "each commit takes one source transaction, none is skipped, their order is kept",
    "readers": "a statement sees one commit; so does a transaction from REPEATABLE READ up; nobody goes back",
    "nothing lost": "at rest every transaction is in every view, the queue is empty, and so are the sources' logs",
    "frozen": "a view that is not maintained keeps its rows",
    "one writer": "whoever commits holds the project's lock",
}


@dataclass(frozen=True)
class Violation:
    """What is wrong, and the smallest history that shows it."""

    rule: str
    text: str
    commit: int | None = None
    view: str | None = None
    history: str = ""
    replay: str = ""

    def __str__(self) -> str:
        where = f" (commit {self.commit})" if self.commit is not None else ""
        return "\n".join(part for part in (f"{self.rule}{where}: {self.text}", self.history, self.replay) if part)


def check(history: History, judge_url: str, mode: str | None = None, limit: int = 5) -> list[Violation]:
    """The first violations of each rule; none if the history is right. The judge gets an empty database of its own."""
    raise NotImplementedError
