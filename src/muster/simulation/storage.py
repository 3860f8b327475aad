"""A replica's way to the shared store: slow, sometimes cut off, and a place where crashes fall.

Owns what can happen between a replica and its store: time before and after each verb (spent in the caller's
Life, so a crash or a pause can fall between a commit and its reply), outages, lost replies, and conflicts
where the port allows them. Refuses to touch the store's inside: the verb itself runs whole.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from muster.domain.errors import Conflict, StoreUnavailable
from muster.ports.store import Store
from muster.simulation.tally import Tally

READS = (
    "installation", "template", "templates", "node", "node_by_machine", "recorded", "nodes", "nodes_due",
    "count_nodes", "count_claimable", "offer", "admitted_key", "node_for_token", "standing",
    "standing_for_token", "last_seen", "unseen", "launch",
    "launch_by_token", "forsaken_launches", "operation", "operation_by_key", "view", "operations",
    "pool", "usage", "events", "last_events",
)  # fmt: skip
"""Verbs that change nothing. What could happen around one happens before the next write as well, so a read
takes a step only where the store is slow."""
CONTESTED = ("apply", "apply_all", "write_launch", "settle", "write_operation")
"""Verbs that may always answer Conflict: the caller reads again and decides anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFaults:
    slow: float = 0.0
    """The share of verbs that take time."""
    slowness: float = 0.05
    """At most this many seconds each way."""
    unavailable: float = 0.0
    """The verb doesn't happen."""
    lost_reply: float = 0.0
    """The verb happens; nobody says so."""
    conflict: float = 0.0
    short_claim: float = 0.0
    """A claim comes back with nothing, as if others had been quicker."""


QUIET = StoreFaults()


class Shore:
    """What all ways to the store share: the store, its faults, and its outages."""

    def __init__(self, inner: Store, *, random: Random, tally: Tally, faults: StoreFaults = QUIET) -> None:
        self.inner = inner
        self.faults = faults
        self.down = False
        self.random = random
        self.tally = tally

    def strikes(self, probability: float, kind: str) -> bool:
        if probability <= 0.0 or self.random.random() >= probability:
            return False
        self.tally.add(f"store: {kind}")
        return True


class StorePath:
    """The Store as one replica reaches it."""

    def __init__(self, shore: Shore) -> None:
        self._shore = shore
        self._ambush: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._steps = 0
        self._verb: str | None = None

    def as_store(self) -> Store:
        return cast(Store, self)

    def ambush(
        self, steps: int, act: Callable[[], Coroutine[Any, Any, None]], *, verb: str | None = None
    ) -> None:
        """After that many steps (a write has two, one on each side) call `act`, in the caller's Life.
        With a verb, only its steps count."""
        self._steps = steps
        self._verb = verb
        self._ambush = act

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        inner: Callable[..., Coroutine[Any, Any, Any]] = getattr(self._shore.inner, verb)
        contested = verb in CONTESTED
        reads = verb in READS
        shore = self._shore

        async def call(*args: Any, **kwargs: Any) -> Any:
            if not reads:
                await self._step(verb)
            elif shore.faults.slow and shore.random.random() < shore.faults.slow:
                await asyncio.sleep(shore.random.random() * shore.faults.slowness)
            self._refuse(verb, contested=contested)
            if verb == "claim" and shore.strikes(shore.faults.short_claim, "short claim"):
                return ()
            result = await inner(*args, **kwargs)
            if reads:
                return result
            await self._step(verb)
            if shore.strikes(shore.faults.lost_reply, "reply lost"):
                raise StoreUnavailable(f"cannot tell whether {verb} happened: the store's answer was lost")
            return result

        setattr(self, verb, call)
        return call

    async def _step(self, verb: str) -> None:
        shore = self._shore
        if self._ambush is not None and self._verb in (None, verb):
            self._steps -= 1
            if self._steps <= 0:
                act, self._ambush = self._ambush, None
                await act()
        if shore.faults.slow and shore.random.random() < shore.faults.slow:
            await asyncio.sleep(shore.random.random() * shore.faults.slowness)
        else:
            await asyncio.sleep(0)

    def _refuse(self, verb: str, *, contested: bool) -> None:
        shore = self._shore
        if shore.down or shore.strikes(shore.faults.unavailable, "unavailable"):
            raise StoreUnavailable(f"cannot {verb}: the store can't be reached")
        if contested and shore.strikes(shore.faults.conflict, "conflict"):
            raise Conflict(f"cannot {verb}: somebody else was quicker")
