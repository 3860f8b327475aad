"""The time during which this replica drives one operation: its right to write, and its pacing.

Owns nothing that must survive: whoever takes over starts a new tenure and derives all else from the store.
"""

from dataclasses import dataclass
from typing import Protocol

from muster.domain.errors import LeaseLost
from muster.domain.ids import LaunchId, OperationId
from muster.domain.operation import Fence, Operation


@dataclass(slots=True, kw_only=True)
class Tenure:
    fence: Fence
    lease_until: float
    """Moved by the driver's renewals."""
    published_at: float
    queued: bool = False
    """It waits in line and does nothing: it takes no place from those who work."""
    retry_at: float = 0.0
    """No provider call for this operation before then."""
    failures: int = 0
    """Looks at the provider that failed in a row."""
    unknown_since: float | None = None
    """When the provider first said that it doesn't know a new identity yet."""
    spent: LaunchId | None = None
    """The provider said that this launch's token was used: look for its machines, don't call again."""

    @property
    def operation_id(self) -> OperationId:
        return self.fence.operation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """When to look again if nobody wakes us."""

    at: float
    also: str | None = None
    """Another topic that may wake it, beside its own."""


def goes_on(operation: Operation, tenure: Tenure) -> bool:
    """Whether there is anything left to do for us. Raises LeaseLost if somebody else does it now."""
    if operation.epoch != tenure.fence.epoch:
        raise LeaseLost(f"operation {operation.id} was taken over")
    return not operation.ended


class Workflow(Protocol):
    """One kind of operation."""

    async def advance(self, tenure: Tenure) -> Next | None:
        """Look at everything the operation holds, do the one next thing, say when to look again: at once, if
        what was done gives more to do, because nobody is woken by what they wrote themselves.

        None: it has ended. Raises LeaseLost (stop driving), Conflict (look again at once),
        StoreUnavailable (look again later).
        """
        ...
