"""Run several reads on one connection, so that their statements go out together.

Each function runs in a greenlet. Where it would wait for an answer, the next function goes on. When all wait,
one exchange brings the answers of all. So a batch takes as many exchanges as its longest function, not as
many as all of them together.

Most functions ask once. So COMMIT goes along with what they ask first. A function that asks for more is run
again, in a transaction that ends when the function has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet
from psycopg.pq.abc import PGresult

from muster.stores.sql.postgres.pipeline import Pipeline
from muster.stores.sql.tx import Hasty, Row, Value

T = TypeVar("T")


class Part:
    """What one of several functions uses of a pipeline."""

    __slots__ = ("_pipeline", "_unanswered", "over")

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._unanswered = 0
        self.over = False
        """The transaction has ended."""

    def defer(self, sql: str, given: Sequence[Value]) -> None:
        """Send a statement. Raises Hasty if the transaction has ended."""
        if self.over:
            raise Hasty
        self._pipeline.defer(sql, given)
        self._unanswered += 1

    def answers(self) -> list[PGresult]:
        """Let the others go on until the answers are there."""
        found: list[PGresult] = getcurrent().parent.switch()
        return found

    def taken(self, answers: list[PGresult]) -> tuple[list[PGresult], list[PGresult]]:
        """Split the answers into those of this function and those of the functions after it."""
        count, self._unanswered = self._unanswered, 0
        return answers[:count], answers[count:]

    def rows(self, answer: PGresult) -> list[Row]:
        return self._pipeline.rows(answer)


class _Turn:
    """One function on its way."""

    __slots__ = ("answers", "going", "part", "value")

    def __init__(self, work: Callable[[Part], Any], pipeline: Pipeline) -> None:
        self.part = Part(pipeline)
        self.answers: list[PGresult] = []
        self.value: Any = None
        self.going = greenlet(lambda: work(self.part))

    def go_on(self) -> bool:
        """Run until the function waits or ends. Return whether it waits."""
        given = (self.answers,) if self.going else ()
        self.value = self.going.switch(*given)
        return not self.going.dead


def at_once(works: Sequence[Callable[[Part], T]], pipeline: Pipeline) -> list[T]:
    """Run functions that read in one exchange with the transaction's end. Return what each returns.

    A function that asks for more meets Hasty. What one of them raises ends all.
    """
    turns = [_Turn(work, pipeline) for work in works]
    going = [turn for turn in turns if turn.go_on()]
    _answer(turns, pipeline.end())
    for turn in going:
        turn.part.over = True
        turn.go_on()
    return [turn.value for turn in turns]


def side_by_side(works: Sequence[Callable[[Part], T]], pipeline: Pipeline) -> list[T]:
    """Run functions that read, in as many exchanges as they take. Return what each returns. What one of them
    raises ends all."""
    turns = [_Turn(work, pipeline) for work in works]
    going = [turn for turn in turns if turn.go_on()]
    while going:
        _answer(turns, pipeline.answers())
        going = [turn for turn in going if turn.go_on()]
    return [turn.value for turn in turns]


def _answer(turns: Sequence[_Turn], answers: list[PGresult]) -> None:
    """Give each function its answers. One that ended meanwhile may have some, too."""
    for turn in turns:
        turn.answers, answers = turn.part.taken(answers)
