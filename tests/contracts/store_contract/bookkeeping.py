"""What must hold whatever a test did: exact counters, and a log that rebuilds the records."""

from collections import defaultdict
from dataclasses import replace

from muster.domain import serialization
from muster.domain.events import LEASE_FIELDS, Entity, Event
from muster.domain.ids import LaunchId, NodeId, OperationId
from muster.domain.operation import Operation
from muster.domain.requests import RunRequest
from muster.domain.serialization import Plain
from muster.ports.store import Cursor, Store

_BIRTHS = ("adopt", "planned", "submitted")


async def assert_books_balance(store: Store) -> None:
    assert await store.audit(now=1e9) == [], "a counter disagrees with what it counts"
    await assert_log_rebuilds(store)


async def whole_feed(store: Store, *, page: int = 100, entity_id: str | None = None) -> list[Event]:
    events: list[Event] = []
    after: Cursor | None = None
    while True:
        found = await store.events(after=after, limit=page, entity_id=entity_id)
        assert found.next is not None, "a feed always says where to go on"
        if not found.items:
            return events
        events.extend(found.items)
        after = found.next


async def assert_log_rebuilds(store: Store) -> None:
    """Folding an entity's events gives its record. Entities whose beginning was pruned can't be folded."""
    histories: dict[tuple[Entity, str], list[Event]] = defaultdict(list)
    for event in await whole_feed(store):
        histories[event.entity, event.entity_id].append(event)
    for (entity, entity_id), history in histories.items():
        if history[0].name not in _BIRTHS:
            continue
        versions = [event.version for event in history]
        assert versions == sorted(versions), f"events of {entity_id} are out of order"
        folded: dict[str, Plain] = {}
        for event in history:
            folded.update(event.changes)
        assert folded == await _record(store, entity, entity_id)


async def _record(store: Store, entity: Entity, entity_id: str) -> dict[str, Plain]:
    match entity:
        case Entity.NODE:
            return serialization.fields_to_plain(await store.node(NodeId(entity_id)))
        case Entity.LAUNCH:
            return serialization.fields_to_plain(await store.launch(LaunchId(entity_id)))
        case _:
            operation = await store.operation(OperationId(entity_id))
            record = serialization.fields_to_plain(_as_told(operation))
            return {name: value for name, value in record.items() if name not in LEASE_FIELDS}


def _as_told(operation: Operation) -> Operation:
    """The environment of what a run executes is private."""
    request = operation.request
    if not isinstance(request, RunRequest):
        return operation
    return replace(operation, request=replace(request, execution=replace(request.execution, env=())))
