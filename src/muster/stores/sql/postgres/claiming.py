"""Claims that wait at the same time are made together: one transaction takes nodes for several operations.

Owns who shares one: claims for the same demand, in the order in which they came. A few transactions of a
demand run side by side, and what arrives meanwhile makes up the next; so a lone claim waits for nobody. An
operation whose row another transaction holds is left out, and claims alone: nobody waits for somebody else's
operation.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.matching import Demand
from muster.domain.node import Node
from muster.stores.sql import claims
from muster.stores.sql.claims import Ask
from muster.stores.sql.engines import Engine

AT_ONCE = 4
"""Transactions of one demand: some must read while others commit, and more would only make them smaller."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    ask: Ask
    answer: asyncio.Future[Sequence[Node]]


class Together:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[Demand, deque[_Waiting]] = {}
        self._flights: dict[Demand, set[asyncio.Task[None]]] = {}

    async def claim(self, demand: Demand, ask: Ask) -> Sequence[Node]:
        answer: asyncio.Future[Sequence[Node]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(demand, deque()).append(_Waiting(ask, answer))
        flights = self._flights.setdefault(demand, set())
        if len(flights) < AT_ONCE:
            # Begun in the next turn of the loop: whoever was woken together with us comes along.
            flights.add(asyncio.create_task(self._fly(demand)))
        return await answer

    async def _fly(self, demand: Demand) -> None:
        waiting, flights = self._waiting[demand], self._flights[demand]
        while waiting:
            await self._transact(demand, _some(waiting))
        flights.discard(asyncio.current_task())
        if not flights:
            del self._flights[demand], self._waiting[demand]

    async def _transact(self, demand: Demand, group: Sequence[_Waiting]) -> None:
        asks = [each.ask for each in group]
        try:
            found = await self._engine.write(lambda tx: claims.claim_together(tx, demand, asks))
        except Exception as error:
            for each in group:
                _tell(each.answer, error)
            return
        busy = []
        for each, end in zip(group, found, strict=True):
            if end is None:
                busy.append(each)
            else:
                _tell(each.answer, end)
        for each in busy:
            await self._alone(demand, each)

    async def _alone(self, demand: Demand, waiting: _Waiting) -> None:
        try:
            end = await self._engine.write(lambda tx: claims.claim(tx, demand, waiting.ask))
        except Exception as error:
            _tell(waiting.answer, error)
        else:
            _tell(waiting.answer, end)


def _some(waiting: deque[_Waiting]) -> list[_Waiting]:
    """As many as one statement serves, and one at least."""
    taken = [waiting.popleft()]
    size = len(taken[0].ask.bindings)
    while waiting and size + len(waiting[0].ask.bindings) <= claims.AT_ONCE:
        taken.append(waiting.popleft())
        size += len(taken[-1].ask.bindings)
    return taken


def _tell(answer: asyncio.Future[Sequence[Node]], end: Sequence[Node] | Exception) -> None:
    if answer.done():
        return  # the caller was cancelled; what it claimed stands all the same
    if isinstance(end, Exception):
        answer.set_exception(end)
    else:
        answer.set_result(end)
