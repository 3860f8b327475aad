"""Deliver messages between agents or callers and the replicas: late, lost, repeated, or to no replica.

A message reaches one replica and is worked on inside that replica's Life. If it dies, the sender gets no
answer, or a broken connection.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from muster.domain.desired_state import Desired
from muster.domain.errors import IllegalTransition, MusterError
from muster.plane import ControlPlane
from muster_simulation.life import Life
from muster_simulation.trace import FaultCounts
from muster_simulation.wire import Unreachable, Wire

__all__ = ["QUIET", "Message", "Network", "NetworkFaults", "Push", "Station", "Unreachable"]

T = TypeVar("T")
Message = Callable[[ControlPlane], Coroutine[Any, Any, T]]
Push = Callable[[Desired], None]
HOUR = 3600.0
HEARD = 0.5
"""The share of cut streams whose agents are told so; the others notice the silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFaults:
    latency: tuple[float, float] = (0.001, 0.01)
    lost: float = 0.0
    """Of each way."""
    duplicate: float = 0.0
    """A message arrives again, up to `stale` seconds later. Senders that repeat until acknowledged make
    copies. A heartbeat is sent once."""
    stale: float = 60.0
    lost_beat: float = 0.0
    lost_push: float = 0.0
    """A line of a stream doesn't come, and the next ones do: its wake-up was lost, or a proxy ate it."""
    cuts: float = 0.0
    """Per stream and hour. Half of them tell the agent that the connection broke, the others nothing."""


QUIET = NetworkFaults()


class Station(Protocol):
    """A replica as the network sees it."""

    @property
    def life(self) -> Life: ...

    @property
    def plane(self) -> ControlPlane: ...


class Network:
    def __init__(
        self,
        *,
        random: Random,
        counts: FaultCounts,
        pick: Callable[[], Station | None],
        failed: Callable[[BaseException], None],
        faults: NetworkFaults = QUIET,
    ) -> None:
        self.faults = faults
        self._random = random
        self._counts = counts
        self._pick = pick
        self._failed = failed
        self._open: dict[str, dict[int, asyncio.Future[Any]]] = {}
        self._wires: dict[str, dict[int, Wire]] = {}
        self._count = 0
        self._world = contextvars.Context()
        """The context of what belongs to no Life, for callbacks that set nothing in it."""

    async def call(self, message: Message[T], *, timeout: float, repeatable: bool = True) -> T:
        """Send and wait for the answer. Raises what the replica raised, or Unreachable."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[T] = loop.create_future()
        expiry = loop.call_later(timeout, _fail, reply, "no answer in time", context=self._world)
        if not self._strikes(self.faults.lost, "lost"):
            loop.call_later(self._latency(), self._arrive, message, reply, context=self._world)
        if repeatable and self._strikes(self.faults.duplicate, "repeated"):
            again = self._random.random() * self.faults.stale
            loop.call_later(again, self._arrive, message, None, context=self._world)
        try:
            return await reply
        finally:
            expiry.cancel()

    def listen(self, serve: Callable[[ControlPlane, Push], Coroutine[Any, Any, None]], wire: Wire) -> None:
        """Open a stream: a replica serves it, and each line that it pushes travels on the wire."""
        if self._strikes(self.faults.lost, "lost"):
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._latency(), self._serve, serve, wire, context=self._world)
        if self.faults.cuts:
            cut_in = self._random.expovariate(self.faults.cuts / HOUR)
            loop.call_later(cut_in, self._sever, wire, context=self._world)

    def _serve(self, serve: Callable[[ControlPlane, Push], Coroutine[Any, Any, None]], wire: Wire) -> None:
        station = self._pick()
        if station is None:
            wire.end(Unreachable("no server there"))
            return
        self._count += 1
        number = self._count
        self._wires.setdefault(station.life.name, {})[number] = wire
        task = station.life.spawn(serve(station.plane, lambda desired: self._push(wire, desired)))
        task.add_done_callback(lambda done: self._served(done, station.life.name, number, wire))

    def _push(self, wire: Wire, desired: Desired) -> None:
        if wire.cut or self._strikes(self.faults.lost_push, "lost on a stream"):
            wire.lose()
            return
        loop = asyncio.get_running_loop()
        at = wire.arrival(loop.time(), self._latency())
        loop.call_at(at, wire.deliver, desired, context=self._world)

    def _served(self, task: "asyncio.Task[None]", name: str, number: int, wire: Wire) -> None:
        self._wires.get(name, {}).pop(number, None)
        error: BaseException = Unreachable("the replica gave up")
        if not task.cancelled():
            error = task.exception() or Unreachable("the stream ended")
            if not isinstance(error, MusterError | Unreachable) or isinstance(error, IllegalTransition):
                self._failed(error)
        asyncio.get_running_loop().call_later(self._latency(), wire.end, error)

    def _sever(self, wire: Wire) -> None:
        if wire.open and self.faults.cuts:
            self._counts.add("stream cut")
            wire.cut = True
            wire.lose()
            if self._random.random() < HEARD:
                wire.end(Unreachable("connection broke"))

    def cut(self, life: Life) -> None:
        """A replica died: those who wait for its answers hear that the connection broke."""
        loop = asyncio.get_running_loop()
        for reply in self._open.pop(life.name, {}).values():
            loop.call_later(self._latency(), _fail, reply, "connection broke", context=self._world)
        for wire in self._wires.pop(life.name, {}).values():
            broke = Unreachable("connection broke")
            loop.call_later(self._latency(), wire.end, broke, context=self._world)

    def _arrive(self, message: Message[T], reply: asyncio.Future[T] | None) -> None:
        station = self._pick()
        if station is None:
            if reply is not None:
                _fail(reply, "no server there")
            return
        self._count += 1
        number = self._count
        task = station.life.spawn(message(station.plane))
        if reply is not None:
            self._open.setdefault(station.life.name, {})[number] = reply
        task.add_done_callback(lambda done: self._answer(done, station.life.name, number, reply))

    def _answer(
        self, task: "asyncio.Task[T]", name: str, number: int, reply: asyncio.Future[T] | None
    ) -> None:
        self._open.get(name, {}).pop(number, None)
        if task.cancelled():
            error: BaseException | None = Unreachable("the replica gave up")
        else:
            error = task.exception()
            if error is not None and (
                not isinstance(error, MusterError) or isinstance(error, IllegalTransition)
            ):
                self._failed(error)
        if reply is None or self._strikes(self.faults.lost, "lost"):
            return
        loop = asyncio.get_running_loop()
        if error is not None:
            loop.call_later(self._latency(), _raise, reply, error)
        else:
            loop.call_later(self._latency(), _settle, reply, task.result())

    def _latency(self) -> float:
        return self._random.uniform(*self.faults.latency)

    def _strikes(self, probability: float, kind: str) -> bool:
        if probability <= 0.0 or self._random.random() >= probability:
            return False
        self._counts.add(f"message {kind}")
        return True


def _fail(reply: asyncio.Future[Any], why: str) -> None:
    _raise(reply, Unreachable(why))


def _raise(reply: asyncio.Future[Any], error: BaseException) -> None:
    if not reply.done():
        reply.set_exception(error)
        reply.exception()  # the sender may have died: the error has no other reader


def _settle(reply: asyncio.Future[T], result: T) -> None:
    if not reply.done():
        reply.set_result(result)
