"""How warm the pools are: the share of nodes that were there already, and how long runs wait for theirs."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.boot import Distribution, distribution
from muster.domain.ids import OperationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One provision that got its nodes."""

    operation_id: OperationId
    template: str | None
    at: float
    seconds: float
    """From the request to the commit: until all nodes were ready for the run."""
    nodes: int
    warm: int
    """How many of them came from the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    provisions: int
    nodes: int
    warm: int
    ready: Distribution | None
    """Seconds to ready; None: no requests."""

    @property
    def rate(self) -> float | None:
        """The warm share of all nodes; None: no requests."""
        return self.warm / self.nodes if self.nodes else None


def warmth(handovers: Sequence[Handover]) -> Warmth:
    return Warmth(
        provisions=len(handovers),
        nodes=sum(each.nodes for each in handovers),
        warm=sum(each.warm for each in handovers),
        ready=distribution([each.seconds for each in handovers]),
    )
