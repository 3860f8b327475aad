"""Batch claims that wait at the same time: one transaction takes nodes for several operations.

A batch holds claims for the same demand, in the order of their arrival. A few batches of a demand run side by
side. Claims that arrive meanwhile form the next batch, so a lone claim does not wait.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.operation import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one operation wants of a demand's nodes."""

    bindings: Sequence[Binding]
    fence: Fence
    seen_since: float
    now: float
    deadline_at: float


End = Sequence[Node] | Exception | None
"""Its nodes, or why it may have none. None: it has to be asked by itself."""
Serve = Callable[[Demand, Sequence[Ask]], Awaitable[Sequence[End]]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    ask: Ask
    answer: asyncio.Future[Sequence[Node]]


class ClaimBatcher:
    def __init__(self, serve: Serve, *, groups: int, most: int) -> None:
        """Set the bounds. `groups`: batches of a demand at a time. `most`: nodes that a batch wants."""
        self._serve = serve
        self._groups = groups
        self._most = most
        self._waiting: dict[Demand, deque[_Waiting]] = {}
        self._busy: dict[Demand, set[asyncio.Task[None]]] = {}

    async def claim(self, demand: Demand, ask: Ask) -> Sequence[Node]:
        answer: asyncio.Future[Sequence[Node]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(demand, deque()).append(_Waiting(ask, answer))
        busy = self._busy.setdefault(demand, set())
        if len(busy) < self._groups:
            # Begun in the next turn of the loop: claims that were woken at the same time join.
            busy.add(asyncio.create_task(self._work(demand)))
        return await answer

    async def _work(self, demand: Demand) -> None:
        waiting, busy = self._waiting[demand], self._busy[demand]
        while waiting:
            alone = await self._answered(demand, self._some(waiting))
            for each in alone:
                await self._answered(demand, [each])
        busy.discard(asyncio.current_task())
        if not busy:
            del self._busy[demand], self._waiting[demand]

    def _some(self, waiting: deque[_Waiting]) -> list[_Waiting]:
        """Return as many as fit, and at least one."""
        taken = [waiting.popleft()]
        size = len(taken[0].ask.bindings)
        while waiting and size + len(waiting[0].ask.bindings) <= self._most:
            taken.append(waiting.popleft())
            size += len(taken[-1].ask.bindings)
        return taken

    async def _answered(self, demand: Demand, group: Sequence[_Waiting]) -> list[_Waiting]:
        """Answer the claims of a batch; return those that must be asked by themselves."""
        ends: Sequence[End]
        try:
            ends = await self._serve(demand, [each.ask for each in group])
        except Exception as error:
            ends = [error] * len(group)
        for each, end in zip(group, ends, strict=True):
            if end is not None:
                _tell(each.answer, end)
        return [each for each, end in zip(group, ends, strict=True) if end is None]


def _tell(answer: asyncio.Future[Sequence[Node]], end: Sequence[Node] | Exception) -> None:
    if answer.done():
        return  # the caller was cancelled; what it claimed stands all the same
    if isinstance(end, Exception):
        answer.set_exception(end)
    else:
        answer.set_result(end)
