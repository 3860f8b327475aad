"""Answers of an exchange that several reads share reach the read that asked."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.postgres.shared_reads import Part, at_once, side_by_side

Run = Callable[[Sequence[Callable[[Part], Any]], Pipeline], list[Any]]


class Echo:
    """A pipeline that answers each statement with its text."""

    def __init__(self) -> None:
        self._sent: list[str] = []

    def defer(self, sql: str, _given: Sequence[object]) -> None:
        self._sent.append(sql)

    def answers(self) -> list[str]:
        sent, self._sent = self._sent, []
        return sent

    end = answers


def _reads(sql: str) -> Callable[[Part], object]:
    def work(part: Part) -> object:
        part.defer(sql, ())
        return part.answers()

    return work


def _breaks_half_way(part: Part) -> None:
    """Send a statement, and end before its answer: the next statement can't be encoded."""
    part.defer("of one that broke", ())


@pytest.mark.parametrize("run", [at_once, side_by_side])
def test_answers_of_a_read_that_ended_reach_no_other(run: Run) -> None:
    works = [_reads("first"), _breaks_half_way, _reads("last")]
    assert run(works, cast("Pipeline", Echo())) == [["first"], None, ["last"]]
