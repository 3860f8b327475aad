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

    attached: AssignmentId | None


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
