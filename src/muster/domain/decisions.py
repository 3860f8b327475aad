"""Define the decisions that several kinds of operations share."""

from dataclasses import dataclass

from muster.domain.launch import Launch
from muster.domain.operation import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProvider:
    """Make the provider call of an open launch, or repeat it."""

    launch: Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendDeadline:
    """Give the operation as much more time as its nodes, or its provision, got."""

    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    status: Status
    verdict: Verdict | None = None
    result: str = ""
    """What came of the work, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    until: float | None = None
    """There is something to do then; None: when something happens."""
