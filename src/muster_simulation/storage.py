"""Stand between a replica and the shared store: slow, sometimes cut off, and a place where crashes fall.

Adds time before and after each verb, spent in the caller's Life. So a crash or a pause can fall between a
commit and its reply. Adds outages, lost replies, and conflicts where the port allows them. Refuses to touch
the store's inside: the verb itself runs whole.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.ids import NodeId, OperationId
from muster.domain.operation import OperationEvent
from muster.domain.reasons import Reason
from muster.ports.store import Store
from muster.ports.verbs import reads_of
from muster.stores.records import complete_in_steps
from muster_simulation.loop import turn
from muster_simulation.trace import FaultCounts

Call = Callable[..., Coroutine[Any, Any, Any]]
READS = reads_of(Store)
"""Verbs that change nothing. What could happen around one happens before the next write as well, so a read
takes a step only where the store is slow."""
CONTESTED = ("apply", "apply_all", "write_launch", "settle", "write_operation", "complete")
"""Verbs that may always answer Conflict: the caller reads again and decides anew."""
BUGGY = (
    "view",
    "claim",
    "reserve",
    "write_launch",
    "settle",
    "apply",
    "apply_all",
    "write_operation",
    "complete",
)
"""Verbs in which a bug may wait for an operation. They are called for one operation each."""


IN_STEPS = 0.5


class Bug(Exception):
    """An error that no code foresees and that stays, for one operation. Injected, so no broken promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    slow: float = 0.0
    """The share of verbs that take time."""
    slowness: float = 0.05
    """At most this many seconds each way."""
    unavailable: float = 0.0
    """The verb doesn't happen."""
    lost_reply: float = 0.0
    """The verb happens, and its reply is lost."""
    conflict: float = 0.0
    short_claim: float = 0.0
    """A claim comes back with nothing, as if others had been quicker."""
    bugs: float = 0.0
    """The share of operations that meet a bug: one verb fails for them, each time."""


QUIET = FaultRates()


class StoreFaults:
    """What all ways to the store share: the store, its faults, and its outages."""

    def __init__(
        self, inner: Store, *, random: Random, counts: FaultCounts, rates: FaultRates = QUIET
    ) -> None:
        self.inner = inner
        self.rates = rates
        self.down = False
        self.random = random
        self.counts = counts
        self.bugs: dict[str, str] = {}
        """The verb that fails for each operation that was seen; none, if it meets no bug."""
        self.admitted: Callable[[NodeId, str], None] | None = None
        """Told of each node that gets a token, in the moment of its commit, with the token's hash."""
        self.leased: Callable[[str, str, float], None] | None = None
        """Told of each lease of a duty that a replica got: the duty, the replica, and until when."""

    def strikes(self, probability: float, kind: str) -> bool:
        if probability <= 0.0 or self.random.random() >= probability:
            return False
        self.counts.add(f"store: {kind}")
        return True

    def trip(self, verb: str, args: tuple[Any, ...], fence: Any) -> None:
        """Raise the bug that waits for the operation in this verb."""
        name: OperationId | None = args[0] if verb == "view" else getattr(fence, "operation_id", None)
        if name is None:
            return
        if name not in self.bugs:
            hit = self.random.random() < self.rates.bugs
            self.bugs[name] = self.random.choice(BUGGY) if hit else ""
        if self.bugs[name] == verb and not _of_failsafe(*args):
            self.counts.add("store: bug")
            raise Bug(f"{verb} always fails for {name}")


def _of_failsafe(*args: Any) -> bool:
    """Whether it is a write of the failsafe, which a bug elsewhere doesn't reach."""
    if getattr(args[0], "name", None) in (OperationEvent.ERRED, OperationEvent.RECOVERED):
        return True
    after = getattr(args[0], "after", args[-1])
    verdict = getattr(after, "verdict", None)
    if verdict is not None and "internal error" in verdict.message:
        return True
    return getattr(after, "reason", None) is Reason.INTERNAL


class StorePath:
    """The Store as one replica reaches it."""

    def __init__(self, faults: StoreFaults) -> None:
        self._faults = faults
        self._ambush: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._steps = 0
        self._verb: str | None = None

    def as_store(self) -> Store:
        return cast(Store, self)

    def ambush(
        self, steps: int, act: Callable[[], Coroutine[Any, Any, None]], *, verb: str | None = None
    ) -> None:
        """After that many steps call `act`, in the caller's Life. A write has two steps, one on each side.
        With a verb, only its steps count; a read that is named has one, after it
        found something."""
        self._steps = steps
        self._verb = verb
        self._ambush = act

    async def beside(self, verb: str, inner: Call, *args: Any, **kwargs: Any) -> Any:
        """Perform a verb of another part of the store, such as jobs: with the same steps and faults."""
        await self._step(verb)
        self._refuse(verb)
        result = await inner(*args, **kwargs)
        await self._step(verb)
        if self._faults.strikes(self._faults.rates.lost_reply, "reply lost"):
            raise StoreUnavailable(f"cannot tell whether {verb} happened: the store's answer was lost")
        return result

    async def complete(self, *args: Any, **kwargs: Any) -> Any:
        """Complete an operation in one transaction, or in steps, as engines with small transactions do.

        Between two steps a crash, a cancel or another write can fall.
        """
        if self._faults.random.random() < IN_STEPS:
            return await complete_in_steps(self.as_store(), *args, **kwargs)
        return await self._writing("complete", self._faults.inner.complete)(*args, **kwargs)

    def __getattr__(self, verb: str) -> Call:
        if verb.startswith("_"):
            raise AttributeError(verb)
        inner: Call = getattr(self._faults.inner, verb)
        call = self._reading(verb, inner) if verb in READS else self._writing(verb, inner)
        setattr(self, verb, call)
        return call

    def _reading(self, verb: str, inner: Call) -> Call:
        faults, buggy = self._faults, verb in BUGGY

        async def read(*args: Any, **kwargs: Any) -> Any:
            rates = faults.rates
            if rates.slow and faults.random.random() < rates.slow:
                await asyncio.sleep(faults.random.random() * rates.slowness)
            if faults.down or rates.unavailable:
                self._refuse(verb)
            if buggy and rates.bugs:
                faults.trip(verb, args, kwargs.get("fence"))
            result = await inner(*args, **kwargs)
            if self._verb == verb and result and await self._struck(verb):
                await turn()  # a paused caller stands still here, with what it has read
            return result

        return read

    def _writing(self, verb: str, inner: Call) -> Call:
        faults, buggy, contested = self._faults, verb in BUGGY, verb in CONTESTED

        async def write(*args: Any, **kwargs: Any) -> Any:
            await self._step(verb)
            self._refuse(verb, contested=contested)
            if buggy and faults.rates.bugs:
                faults.trip(verb, args, kwargs.get("fence"))
            if verb == "claim" and faults.strikes(faults.rates.short_claim, "short claim"):
                return ()
            result = await inner(*args, **kwargs)
            if verb == "admit" and faults.admitted is not None:
                faults.admitted(args[1], kwargs["token_hash"])
            if verb == "lease_duty" and result and faults.leased is not None:
                faults.leased(args[0], args[1], kwargs["until"])
            await self._step(verb)
            if faults.strikes(faults.rates.lost_reply, "reply lost"):
                raise StoreUnavailable(f"cannot tell whether {verb} happened: the store's answer was lost")
            return result

        return write

    async def _step(self, verb: str) -> None:
        faults = self._faults
        if self._ambush is not None:
            await self._struck(verb)
        if faults.rates.slow and faults.random.random() < faults.rates.slow:
            await asyncio.sleep(faults.random.random() * faults.rates.slowness)
        else:
            await turn()

    async def _struck(self, verb: str) -> bool:
        """Count a step. Whether it was the one that the ambush waited for."""
        if self._ambush is None or self._verb not in (None, verb):
            return False
        self._steps -= 1
        if self._steps > 0:
            return False
        act, self._ambush = self._ambush, None
        await act()
        return True

    def _refuse(self, verb: str, *, contested: bool = False) -> None:
        faults = self._faults
        if faults.down or faults.strikes(faults.rates.unavailable, "unavailable"):
            raise StoreUnavailable(f"cannot {verb}: the store can't be reached")
        if contested and faults.strikes(faults.rates.conflict, "conflict"):
            raise Conflict(f"cannot {verb}: another writer was quicker")
