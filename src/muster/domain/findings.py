"""Define a finding: one problem, where its cause is, and the next act.

Owns the shape of a finding and its identity. `verdicts` has the rules that make findings.
"""

from dataclasses import dataclass
from enum import StrEnum

from muster.domain.progress import Tone
from muster.domain.reasons import Reason


class Culprit(StrEnum):
    NONE = "none"
    US = "us"
    MACHINE = "machine"
    """The machine on which server and nodes run."""
    CLOUD = "cloud"
    RUNTIME = "runtime"
    """The service behind a runtime, where its jobs come from."""
    TEMPLATE = "template"
    OPERATOR = "operator"
    DEMAND = "demand"


ORDER = (Tone.DANGER, Tone.WARNING)
_CULPRITS: dict[Reason, Culprit] = {
    Reason.CAPACITY: Culprit.CLOUD,
    Reason.QUOTA: Culprit.CLOUD,
    Reason.THROTTLED: Culprit.CLOUD,
    Reason.PROVIDER_REFUSED: Culprit.CLOUD,
    Reason.PROVIDER_ERROR: Culprit.CLOUD,
    Reason.PARTIAL_LAUNCH: Culprit.CLOUD,
    Reason.INTERRUPTED: Culprit.CLOUD,
    Reason.MACHINE_GONE: Culprit.CLOUD,
    Reason.CAP_REACHED: Culprit.DEMAND,
    Reason.ABOVE_CAP: Culprit.DEMAND,
    Reason.MAX_RUNTIME: Culprit.DEMAND,
    Reason.DEADLINE_EXCEEDED: Culprit.DEMAND,
    Reason.ORPHAN: Culprit.US,
    Reason.INTERNAL: Culprit.US,
}
"""Where the cause of a reason is. For every other reason it is the template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    tone: Tone = Tone.WARNING
    culprit: Culprit
    text: str
    advice: str
    about: About | None = None
    subject: str = ""
    """Distinguishes findings of one code: letters, digits, dots, dashes and underscores."""
    happened_at: float | None = None
    """When it last happened. None: a state whose start is unknown."""
    over: bool = False
    """It happened, and nothing shows that it continues."""

    @property
    def id(self) -> str:
        """Return an id that every replica gives to the same problem."""
        return f"{self.code}.{self.subject}" if self.subject else self.code


def ranked(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort present findings before past ones, then the worst first."""
    return tuple(sorted(findings, key=lambda each: (each.over, ORDER.index(each.tone))))


def culprit_of(reason: Reason, *, local: bool = False) -> Culprit:
    """Return where the cause of a reason is. `local`: nodes are on the server's own machine."""
    culprit = _CULPRITS.get(reason, Culprit.TEMPLATE)
    if not local or culprit is not Culprit.CLOUD:
        return culprit
    return Culprit.DEMAND if reason is Reason.CAPACITY else Culprit.MACHINE
