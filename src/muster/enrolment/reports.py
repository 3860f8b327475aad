"""Define what a node can report about itself, and the limits of each field."""

from dataclasses import dataclass

from muster.domain import checks
from muster.domain.ids import AssignmentId

STEP_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says about itself. Everything it says is still true when it says it again."""

    booted: bool = False
    attached: AssignmentId | None = None
    detached: AssignmentId | None = None
    """It holds nothing of this assignment any more: proven, or it never did."""
    failed: str | None = None
    """The boot, or the attempt to attach, failed for good, and how it ended."""
    failed_assignment: AssignmentId | None = None
    """What it could not attach to; None: it is the boot that failed."""
    phase: str | None = None
    """How far its boot is."""
    step: str | None = None
    """What the boot script says it is at, inside the phase."""
    left: bool = False
    """An app's goodbye: it is no node any more."""
    interrupted: float | None = None
    """Its provider takes the machine back in so many seconds."""

    def __post_init__(self) -> None:
        if self.interrupted is not None:
            checks.seconds("interrupted", self.interrupted, zero=True)
        if self.phase is not None:
            checks.text("phase", self.phase, longest=checks.NAME_MAX)
        if self.step is not None:
            checks.text("step", self.step, longest=STEP_MAX)
