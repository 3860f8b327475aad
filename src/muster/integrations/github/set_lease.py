"""The lease of a scale set's listener: who acts must hold it."""

from dataclasses import dataclass

from muster.domain.errors import MusterError
from muster.ports.duties import Held


class LeaseOver(MusterError):
    """Another replica may listen to the set by now: do nothing more."""


@dataclass(slots=True)
class SetLease:
    held: Held = lambda: True

    def check(self) -> None:
        """Raise LeaseOver if the lease is over, as after a pause of this process."""
        if not self.held():
            raise LeaseOver("the lease of this scale set is over")
