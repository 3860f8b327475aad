"""Define a launch: one call to a provider for k nodes, and its reservation under the caps.

planned → calling → settled or abandoned. Provider calls can't be fenced, so the row carries the truth and is
written before the call. The row holds its room until the call is answered or can make no more machines. Its
token makes a repeat the same call.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from zlib import crc32

from muster.domain.backoff import backoff
from muster.domain.errors import IllegalTransition
from muster.domain.ids import LaunchId, OperationId
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass


class LaunchState(StrEnum):
    PLANNED = "planned"
    CALLING = "calling"
    SETTLED = "settled"
    ABANDONED = "abandoned"


OPEN = (LaunchState.PLANNED, LaunchState.CALLING)
_ANOTHER_MAY_HAVE = (Reason.CAPACITY, Reason.PARTIAL_LAUNCH, Reason.QUOTA)
"""What one usage class lacks. Spot and on-demand have quotas of their own."""
PAUSE_FIRST = 2.0
PAUSE_MOST = 30.0
THROTTLED_MOST = 8
"""Launches of one operation, over some two minutes. Who is throttled for longer asks for too much at once,
and asking on would keep all others throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    id: LaunchId
    operation_id: OperationId
    token: str
    template: str
    revision: int
    provider: str
    resource_class: str
    usage_class: UsageClass
    instance_types: tuple[str, ...]
    count: int
    state: LaunchState = LaunchState.PLANNED
    version: int = 1
    created_at: float
    called_at: float | None = None
    """When the latest call started; earlier calls are older and so surprise no later than this one."""
    calls: int = 0
    adopted: int = 0
    """How many of the k have a node record; the rest is what the reservation still holds."""
    closed_at: float | None = None
    reason: Reason | None = None
    message: str = ""

    @property
    def open(self) -> bool:
        return self.state in OPEN

    @property
    def pending(self) -> bool:
        """Open, and worth another call: no repeat of it was refused."""
        return self.open and self.reason is None

    @property
    def held(self) -> int:
        """Return the room held under the caps beyond the nodes that are recorded."""
        return max(0, self.count - self.adopted) if self.open else 0


def calling(launch: Launch, *, now: float) -> Launch:
    if not launch.open:
        raise IllegalTransition(f"cannot call launch {launch.id}: it is {launch.state}")
    return replace(
        launch, state=LaunchState.CALLING, version=launch.version + 1, called_at=now, calls=launch.calls + 1
    )


def refused(launch: Launch, *, reason: Reason, message: str = "") -> Launch:
    """Store that a repeat was refused while an earlier call is unanswered.

    The earlier call may still be carried out. So nothing more is called, and the room stays held until no
    machine can appear.
    """
    if launch.state is not LaunchState.CALLING:
        raise IllegalTransition(f"cannot refuse launch {launch.id}: it is {launch.state}")
    return replace(launch, version=launch.version + 1, reason=reason, message=message)


def settled(
    launch: Launch, *, now: float, adopted: int, reason: Reason | None = None, message: str = ""
) -> Launch:
    if launch.state is not LaunchState.CALLING:
        raise IllegalTransition(f"cannot settle launch {launch.id}: it is {launch.state}")
    return replace(
        launch,
        state=LaunchState.SETTLED,
        version=launch.version + 1,
        closed_at=now,
        adopted=adopted,
        reason=reason,
        message=message,
    )


def abandoned(launch: Launch, *, now: float, reason: Reason, message: str = "") -> Launch:
    if not launch.open:
        raise IllegalTransition(f"cannot abandon launch {launch.id}: it is {launch.state}")
    return replace(
        launch,
        state=LaunchState.ABANDONED,
        version=launch.version + 1,
        closed_at=now,
        reason=reason,
        message=message,
    )


def next_usage(wanted: Sequence[UsageClass], launches: Sequence[Launch]) -> UsageClass | None:
    """Return the usage class for the next launch: the first that didn't fail yet.

    Another class is tried only for a failure that it may not share. A throttled launch says nothing about its
    class; many of them end the tries.
    """
    if sum(launch.reason is Reason.THROTTLED for launch in launches) >= THROTTLED_MOST:
        return None
    failed: dict[UsageClass, Reason] = {}
    for launch in launches:
        if launch.reason is None:
            failed.pop(launch.usage_class, None)  # others made way, and it was asked for once more
        elif launch.reason is not Reason.THROTTLED:
            failed[launch.usage_class] = launch.reason
    if any(reason not in _ANOTHER_MAY_HAVE for reason in failed.values()):
        return None
    return next((usage for usage in wanted if usage not in failed), None)


def again_at(launches: Sequence[Launch]) -> float:
    """Return when the next launch may be made after throttled ones; 0: at once.

    The pause grows with their number and differs between operations. A throttled answer is final for its
    token, so a new try is another launch.
    """
    throttled = list(takewhile(lambda each: each.reason is Reason.THROTTLED, reversed(launches)))
    if not throttled:
        return 0.0
    last = throttled[0]
    pause = backoff(len(throttled) - 1, first=PAUSE_FIRST, most=PAUSE_MOST)
    spread = crc32(last.id.encode()) / 2**32  # the same on every replica
    return (last.closed_at or 0.0) + pause * (1 + spread / 2)


def may_surprise(launch: Launch, *, now: float, call_timeout: float, visibility_window: float) -> bool:
    """Return whether machines of this launch that were not listed yet may still appear."""
    if launch.called_at is None:
        return False
    return now < launch.called_at + call_timeout + visibility_window
