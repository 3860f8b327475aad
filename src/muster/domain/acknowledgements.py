"""Acknowledgements: an operator has seen a finding, and it need not be shown first any more.

Owns how long that holds. An acknowledged finding comes back when it happens anew or gets worse. A state whose
begin is unknown can't be told from the same state anew, so it comes back after an hour.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain.findings import ORDER, Finding
from muster.domain.observations import DAY, HOUR
from muster.domain.progress import Tone

STATES_FOR = HOUR
KEPT = 30 * DAY
"""Older acknowledgements are forgotten, and what they were for is shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    finding: str
    """The finding's id."""
    tone: Tone
    """How bad it was."""
    at: float
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    finding: Finding
    actor: str
    at: float


def holds(acknowledgement: Acknowledgement, finding: Finding, *, now: float) -> bool:
    if ORDER.index(finding.tone) < ORDER.index(acknowledgement.tone) or now >= acknowledgement.at + KEPT:
        return False
    if finding.happened_at is None:
        return now < acknowledgement.at + STATES_FOR
    return finding.happened_at <= acknowledgement.at


def split_acknowledged(
    findings: Sequence[Finding], acknowledgements: Sequence[Acknowledgement], *, now: float
) -> tuple[tuple[Finding, ...], tuple[Acknowledged, ...]]:
    """Split the findings into those to show and those acknowledged, each in their order."""
    known = {each.finding: each for each in acknowledgements}
    shown: list[Finding] = []
    seen: list[Acknowledged] = []
    for finding in findings:
        found = known.get(finding.id)
        if found is not None and holds(found, finding, now=now):
            seen.append(Acknowledged(finding=finding, actor=found.actor, at=found.at))
        else:
            shown.append(finding)
    return tuple(shown), tuple(seen)
