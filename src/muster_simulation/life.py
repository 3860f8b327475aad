"""Simulated processes that can be killed and paused.

Owns: what it means for a process of the simulation to be dead or stopped.
Refuses: to let the process notice. A killed one runs nothing more, no `finally` and no
`except CancelledError`, as after kill -9. A paused one finds on waking what a stopped process finds:
everything that came meanwhile, in order, its own timers too.

A Life rules over all code that starts from `spawn`: the task, and the tasks, callbacks and timers that it
starts. Code with no Life is the world (cloud, nodes, network, stores) and immortal. But processes call the
world's methods in their own tasks: what must survive the caller is started with `outside`.

Rules for users. Await a task of another Life with `asyncio.wait({task}, timeout=...)`: it may never finish,
and `wait_for` waits for a task that it cancelled. Don't share locks, queues or semaphores between Lives: the
dead don't release, and a wake-up handed to the dead is lost.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from muster_simulation.loop import GATE, Gate, running_loop

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Life(Gate):
    """One process, from its start to its kill. A restarted process is a new Life."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._paused_until: float | None = None

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "paused" if self.paused else "alive"
        return f"<Life {self.name} {state}>"

    @property
    def paused(self) -> bool:
        return self._paused_until is not None

    def spawn(self, coro: Coroutine[Any, Any, _T], *, name: str | None = None) -> asyncio.Task[_T]:
        """Run a coroutine in this Life, from any caller."""
        if not self.alive:
            coro.close()
            raise RuntimeError(f"cannot spawn in {self.name}: it is dead; a restarted process is a new Life")
        context = contextvars.copy_context()
        context.run(GATE.set, self)
        return running_loop().create_task(coro, name=name, context=context)

    def kill(self) -> None:
        """Never run anything of this Life again.

        Code of this Life that calls it goes on to its next await: `await life.die()` stops on the spot.
        """
        self.alive = False
        self._paused_until = None
        self.shut = True  # and what is held stays held: the dead are not collected during the run

    async def die(self) -> None:
        """Kill this Life and, if the caller lives it, never return."""
        self.kill()
        if GATE.get() is self:
            await running_loop().create_future()

    def pause(self, until: float) -> None:
        """Stop until that loop time; what comes meanwhile waits, cancellations too. The latest end counts."""
        loop = running_loop()
        end_so_far = loop.time() if self._paused_until is None else self._paused_until
        if not self.alive or until <= end_so_far:
            return
        self._paused_until = until
        self.shut = True
        # In an empty context: a stopped process can't wake itself.
        loop.call_at(until, self._wake, until, context=contextvars.Context())

    def _wake(self, until: float) -> None:
        if self._paused_until != until:  # killed, or paused for longer since
            return
        self._paused_until = None
        self.shut = False
        held, self.held = self.held, []
        running_loop().requeue(held)


def current_life() -> Life | None:
    """The Life the calling code belongs to; None in the world."""
    gate = GATE.get()
    return gate if isinstance(gate, Life) else None


def outside(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function as the world: the tasks, timers and callbacks that it starts outlive the caller.

    For a verb that the caller's death must not cut in half: `await outside(asyncio.create_task, verb())`.
    """
    context = contextvars.copy_context()
    context.run(GATE.set, None)
    return context.run(function, *args, **kwargs)
