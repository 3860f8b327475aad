"""Group unfinished work by what it waits for, with the oldest of each.

Reads only an operation's own row, so that it costs one list. Leaves out what is counted elsewhere: a run
waits for its own provision, and nodes that work for a run are not waited for.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation, Status

EXAMPLES = 5


class WaitsFor(StrEnum):
    DRIVER = "driver"
    PAUSED = "paused"
    ROOM = "room"
    POOL = "pool"
    PROVIDER = "provider"
    BOOT = "boot"
    ATTACH = "attach"
    HAND_OVER = "hand_over"
    RELEASE = "release"
    UNDO = "undo"
    OTHER = "other"


WORDS: dict[WaitsFor, tuple[str, str]] = {
    WaitsFor.DRIVER: ("waits for a replica to drive it", "wait for a replica to drive them"),
    WaitsFor.PAUSED: ("is held back by a pause", "are held back by a pause"),
    WaitsFor.ROOM: ("waits for room under the caps", "wait for room under the caps"),
    WaitsFor.POOL: ("looks for warm nodes", "look for warm nodes"),
    WaitsFor.PROVIDER: ("waits for the provider's answer", "wait for the provider's answer"),
    WaitsFor.BOOT: ("waits for nodes to boot", "wait for nodes to boot"),
    WaitsFor.ATTACH: ("waits for nodes to attach", "wait for nodes to attach"),
    WaitsFor.HAND_OVER: ("hands its nodes over", "hand their nodes over"),
    WaitsFor.RELEASE: ("waits for nodes to be clean", "wait for nodes to be clean"),
    WaitsFor.UNDO: ("is being rolled back", "are being rolled back"),
    WaitsFor.OTHER: ("is under way", "are under way"),
}
"""Of one, and of several."""
_PHASES = {
    "selecting": WaitsFor.POOL,
    "creating": WaitsFor.PROVIDER,
    "booting": WaitsFor.BOOT,
    "handing_over": WaitsFor.HAND_OVER,
    "releasing": WaitsFor.RELEASE,
    "detaching": WaitsFor.RELEASE,
}
_HELD_BACK = (WaitsFor.POOL, WaitsFor.PROVIDER, WaitsFor.ROOM)
"""What a pause holds back; what boots already goes on."""
_BOOTING = ("starting", "booting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    reason: WaitsFor
    count: int
    oldest_since: float
    operation_ids: tuple[OperationId, ...]
    """The oldest few."""

    @property
    def text(self) -> str:
        one, several = WORDS[self.reason]
        return one if self.count == 1 else several


def waiting(
    operations: Sequence[Operation], *, paused: Collection[str | None], now: float
) -> tuple[Waiting, ...]:
    """Return the waiting work by reason, the oldest first. `paused`: names of templates, None for
    everything."""
    groups: dict[WaitsFor, list[Operation]] = {}
    for operation in operations:
        reason = waits_for(operation, paused=paused, now=now)
        if reason is not None:
            groups.setdefault(reason, []).append(operation)
    found = [_group(reason, members) for reason, members in groups.items()]
    return tuple(sorted(found, key=lambda group: (group.oldest_since, group.reason)))


def _group(reason: WaitsFor, members: list[Operation]) -> Waiting:
    oldest = sorted(members, key=lambda each: (_since(each), each.id))
    return Waiting(
        reason=reason,
        count=len(members),
        oldest_since=_since(oldest[0]),
        operation_ids=tuple(each.id for each in oldest[:EXAMPLES]),
    )


def _since(operation: Operation) -> float:
    return operation.queued_since if operation.queued_since is not None else operation.created_at


def waits_for(operation: Operation, *, paused: Collection[str | None], now: float) -> WaitsFor | None:
    """Return what an operation waits for. None: nothing, or it is counted elsewhere."""
    if operation.ended:
        return None
    if operation.lease_owner is None or operation.lease_until <= now:
        return WaitsFor.DRIVER
    if operation.verdict is not None or operation.cancel_requested_at is not None:
        return WaitsFor.UNDO
    if operation.kind is Kind.RUN:
        return None
    reason = _by_phase(operation)
    if reason in _HELD_BACK and (None in paused or operation.template in paused):
        return WaitsFor.PAUSED
    return reason


def _by_phase(operation: Operation) -> WaitsFor:
    if operation.status is Status.QUEUED and operation.queued_since is not None:
        return WaitsFor.ROOM
    shown = operation.progress
    if shown is None:
        return WaitsFor.POOL if operation.kind is Kind.PROVISION else WaitsFor.OTHER
    reason = _PHASES.get(shown.phase, WaitsFor.OTHER)
    if reason is WaitsFor.BOOT and shown.parts and not any(each.state in _BOOTING for each in shown.parts):
        return WaitsFor.ATTACH
    return reason
