"""Define what a node can report about itself, and the limits of each field."""

import logging
from dataclasses import dataclass

from muster.domain import checks
from muster.domain.ids import AssignmentId
from muster.domain.redaction import redact

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


logger = logging.getLogger(__name__)

SAID_MOST = 65_536
"""Of a node's words: what is longer isn't even read."""
DETAIL_MAX = 4096
"""Of what a node says about its failure: its exit code, then the end of its output."""
WITHHELD = "withheld: the text could not be redacted"


def how_it_failed(said: str) -> str:
    """Return a node's account of its failure: how it ended, then the end of its output.

    Text that is too long loses its middle. Redacted before it is cut, because half a secret isn't recognised.
    """
    head, line_end, tail = said.partition("\n")
    if len(tail) > SAID_MOST:
        tail = tail[-SAID_MOST:].partition("\n")[2]
    told = _redacted(f"{head[:SAID_MOST]}{line_end}{tail}")
    if told is None:
        return f"it failed; {WITHHELD}"
    if len(told) <= DETAIL_MAX:
        return told
    head, _, tail = told.partition("\n")
    return f"{head[: DETAIL_MAX // 4]}\n{tail[-DETAIL_MAX // 2 :]}"


def in_short(said: str, *, longest: int) -> str:
    """Return a short text, redacted and cut."""
    if not said:
        return said
    told = _redacted(said)
    return (WITHHELD if told is None else told)[:longest]


def _redacted(said: str) -> str | None:
    try:
        return redact(said)
    except Exception:
        # The text must not be shown, so not the exception either: it may quote it.
        logger.error("a node's words were withheld: they could not be redacted")  # noqa: TRY400
        return None
