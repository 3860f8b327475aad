"""What an operator looks at: how much there is of everything, what waits, what failed, who changed what.

Read only, and cheap however much there is: every verb reads an index from one end, or counts along one. No
decision hangs on what it says, so an adapter may answer from a moment ago.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.events import Event
from muster.domain.failures import Failure
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.domain.overview import Handover
from muster.domain.pool_history import PoolSample
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """When a duty was last begun, by whichever replica held it."""

    name: str
    at: float | None
    """None: not since the store knows of ticks."""
    problem: str = ""
    """What kept the tick before from its end."""


class OverviewStore(Protocol):
    @reads
    async def census(self) -> Mapping[str, Mapping[NodeState, int]]:
        """Return, for every template by name, the number of nodes in each state but terminated; zeros too."""
        ...

    @reads
    async def health(self) -> Mapping[str, Mapping[Health, int]]:
        """Return, by template, how many nodes have each health; zeros too.

        Counts nodes that joined and are not being terminated. Leaves out templates without such nodes.
        """
        ...

    @reads
    async def unfinished(self, *, limit: int) -> Sequence[Operation]:
        """Return operations that have not ended, oldest first."""
        ...

    @reads
    async def terminating(self, *, limit: int) -> Sequence[Node]:
        """Return nodes that are being terminated, longest first."""
        ...

    @reads
    async def failures(self, *, since: float, limit: int) -> Sequence[Failure]:
        """Return failures at or after a time, newest first."""
        ...

    @reads
    async def handovers(self, *, since: float, limit: int) -> Sequence[Handover]:
        """Return provisions that were committed at or after a time, newest first."""
        ...

    @reads
    async def changes(self, *, since: float, limit: int) -> Sequence[Event]:
        """Return acts of operators and changes of templates and of the installation, at or after a time;
        newest first. Requests for work (`domain.events.WORK`) are left out."""
        ...

    @reads
    async def acts(self, *, since: float, after: Cursor | None, limit: int) -> Page[Event]:
        """Return the events that name an actor, at or after a time, oldest first. `after` takes the place of
        `since`. An act whose write ends later than its time may be missed: the feed has it."""
        ...

    @reads
    async def pool_samples(self, *, since: float, limit: int) -> Sequence[PoolSample]:
        """Return samples of the pools taken at or after a time, oldest first."""
        ...

    @reads
    async def ticks(self) -> Sequence[Tick]:
        """Return the duties that were ever performed, by name."""
        ...
