"""What every check may look at: the folded records, the cloud's ledger, and what the agents really do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from muster.domain.ids import AssignmentId
from muster_simulation.cloud import Ledger
from muster_simulation.invariants.folding import Folded
from muster_simulation.invariants.truth import Presence, Truth


class Physical(Protocol):
    """An agent as the judge sees it."""

    @property
    def attached(self) -> AssignmentId | None: ...

    @property
    def ended(self) -> Mapping[AssignmentId, None]:
        """Assignments that it served, and whose program came to its end by itself."""
        ...

    @property
    def poll(self) -> float:
        """How long it waits for news where no stream reaches it."""
        ...

    @property
    def disturbed_until(self) -> float:
        """The end of its last freeze or partition."""
        ...

    @property
    def losses(self) -> list[float]:
        """When something that would have told it what to do didn't reach it."""
        ...

    @property
    def wanted(self) -> AssignmentId | None:
        """The assignment that it was last told of."""
        ...

    @property
    def told_to(self) -> str:
        """What it was last told to do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    installation_id: str
    now: Callable[[], float]
    ledger: Ledger
    agents: Mapping[str, Physical]
    """Of the machines that are not gone."""
    truths: Mapping[str, Truth] = field(default_factory=dict)
    """Of all machines that ever had an agent."""
    presence: Presence = field(default_factory=Presence)
    bugs: Mapping[str, str] | None = None
    """Operations, and where each meets a bug that was put there; empty: nowhere. None: that isn't known."""
    records: Folded = field(default_factory=Folded)
