"""Map a committed write to the wake-up topics of those who wait for it.

This module owns which topics a write touches. A store calls its hook once after each commit, with what was
written. Wake-ups are hints, so correctness needs none of them.
"""

from collections.abc import Sequence

from muster.domain.events import Draft, Entity
from muster.domain.ids import OperationId
from muster.domain.launch import OPEN
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.node import RENEWED
from muster.domain.operation import ENDED, Operation, OperationEvent, Status
from muster.ports.commits import AfterCommit, Written
from muster.ports.wakeups import (
    ACCESS,
    EVENTS,
    HEALTH,
    JOBS,
    LINE,
    OPERATIONS,
    ROOM,
    Wakeups,
    command_topic,
    driver_topic,
    node_topic,
    operation_topic,
    progress_topic,
)

_ROOMY = (NodeState.IDLE.value, NodeState.TERMINATED.value)
_OPEN = tuple(state.value for state in OPEN)
_ENDED = tuple(status.value for status in ENDED)
NOTHING_NEW = (Fact.ATTACHED.value, Verb.HAND_OVER.value, RENEWED)
"""Changes after which a node is told what it was told before. It learns of the new version when it beats. The
next line or answer tells it of a later dead man's time."""


def announcer(wakeups: Wakeups) -> AfterCommit:
    """Return a hook that notifies each topic of a commit once, in a stable order."""

    def announce(written: Sequence[Written]) -> None:
        for topic in dict.fromkeys(topic for each in written for topic in topics(each)):
            wakeups.notify(topic)

    return announce


def topics(written: Written) -> tuple[str, ...]:
    draft = written.draft
    found: list[str] = []
    for operation_id in written.operation_ids:
        found += _concerning(operation_id, written.by)
    match draft.entity:
        case Entity.NODE:
            if draft.name not in NOTHING_NEW:
                found.append(node_topic(draft.entity_id))
            if draft.changes.get("state") in _ROOMY:
                found.append(ROOM)
            if draft.changes.get("booted_at") is not None:
                found.append(HEALTH)
        case Entity.LAUNCH:
            state = draft.changes.get("state")
            if state is not None and state not in _OPEN:
                found.append(ROOM)
        case Entity.OPERATION:
            found += (*_concerning(draft.entity_id, written.by), progress_topic(draft.entity_id))
            found.extend(_of_operation(draft, written.record))
        case Entity.HEALTH | Entity.DIAGNOSIS | Entity.CLUSTER:
            pass  # followers of the feed are told; no caller waits for it
        case Entity.JOB:
            found.append(JOBS)
        case Entity.COMMAND:
            found.append(command_topic(draft.entity_id))
        case Entity.TEMPLATE | Entity.INSTALLATION:
            # A new revision or a higher cap may let something go on that waits for room.
            found += (ROOM, LINE, ACCESS)
    found.append(EVENTS)
    return tuple(dict.fromkeys(found))


def _concerning(operation_id: str, by: OperationId | None) -> tuple[str, ...]:
    # Fenced writes come from the one driver there is, which decides anew after each of them by itself.
    topic = operation_topic(operation_id)
    return (topic,) if operation_id == by else (topic, driver_topic(operation_id))


def _of_operation(draft: Draft, record: object) -> tuple[str, ...]:
    changes = draft.changes
    if "queued_since" in changes and changes["queued_since"] is None and draft.name != "submitted":
        return (ROOM, LINE)
    if changes.get("status") in _ENDED:
        return (ROOM,)
    if draft.name == OperationEvent.SUBMITTED:
        # Most are leased to the replica that took them: then no other one has anything to do.
        return () if isinstance(record, Operation) and record.lease_owner is not None else (OPERATIONS,)
    tries_again = changes.get("status") == Status.RUNNING.value
    return (ROOM,) if tries_again else ()
