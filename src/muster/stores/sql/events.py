"""The event log: appended in the transaction of the write that it describes, read by cursor.

An event's number gives its id and its place. One writer at a time gives numbers in the order of commits. So a
reader that has seen number n has seen everything before it. Where transactions run side by side, the engine
says up to which number the log is complete, and readers stop there.

A cursor is the number and the time of the event that was read last. A store that was restored from a backup
gives the same numbers again. By its time, a cursor of the lost history is told from a valid one.
"""

from collections.abc import Sequence

from muster.domain.errors import CursorLost
from muster.domain.events import WORK, Draft, Entity, Event, of_note
from muster.domain.ids import EventId, OperationId
from muster.domain.reasons import Reason
from muster.ports.commits import Record, Written
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.sql.rows import from_json, to_json
from muster.stores.sql.tx import Row, Tx, Value

_COLUMNS = "seq, at, entity, entity_id, version, name, changes, detail, actor"
_ENTITY = 2
_ENTITIES = {entity.value: entity for entity in Entity}

FEED = f"""
    SELECT {_COLUMNS} FROM events WHERE seq >= :seq AND seq <= :upto ORDER BY seq LIMIT :limit
"""
FEED_OF_ENTITY = f"""
    SELECT {_COLUMNS} FROM events WHERE entity_id = :entity_id AND seq >= :seq AND seq <= :upto
    ORDER BY seq LIMIT :limit
"""
TAIL = f"SELECT {_COLUMNS} FROM events WHERE seq <= :upto ORDER BY seq DESC LIMIT :limit"
TAIL_OF_ENTITY = f"""
    SELECT {_COLUMNS} FROM events WHERE entity_id = :entity_id AND seq <= :upto ORDER BY seq DESC LIMIT :limit
"""
LAST = "SELECT max(seq) FROM events"
EVERYTHING = (1 << 63) - 1
"""No number is higher."""

# In the words of the indexes events_changes and events_acts.
CHANGES = f"""
    SELECT {_COLUMNS} FROM events
    WHERE (actor <> '' OR entity IN ('template', 'installation'))
      AND name NOT IN ({", ".join(f"'{name}'" for name in WORK)}) AND at >= :since
    ORDER BY at DESC, seq DESC LIMIT :limit
"""
ACTS = f"""
    SELECT {_COLUMNS} FROM events WHERE actor <> '' AND (at, seq) > (:at, :seq)
    ORDER BY at, seq LIMIT :limit
"""


def append(
    tx: Tx,
    draft: Draft,
    *,
    at: float,
    operations: Sequence[OperationId] = (),
    record: Record | None = None,
) -> None:
    """Append an event. `record`: the entity after this write, for those who keep it in memory."""
    tx.append(
        {
            "at": at,
            "entity": draft.entity.value,
            "entity_id": draft.entity_id,
            "version": draft.version,
            "name": draft.name,
            "changes": to_json(draft.changes),
            "detail": draft.detail,
            "actor": draft.actor,
        },
    )
    tx.written.append(Written(draft=draft, operation_ids=tuple(operations), by=tx.by, record=record))


def note(
    tx: Tx,
    entity_id: str,
    name: str,
    *,
    reason: Reason | None,
    detail: str,
    now: float,
    actor: str = "",
) -> None:
    append(tx, of_note(entity_id, name, reason=reason, detail=detail, actor=actor), at=now)


def feed(
    tx: Tx, *, after: Cursor | None, limit: int, entity_id: str | None, upto: int = EVERYTHING
) -> Page[Event]:
    seq, at = (0, 0.0) if after is None else cursors.decode("events", after, int, float)
    # From the event at which the cursor stands, which is no news.
    bounds: dict[str, Value] = {"seq": seq, "upto": upto, "limit": limit + 1}
    if entity_id is None:
        rows = tx.execute(FEED, bounds)
    else:
        rows = tx.execute(FEED_OF_ENTITY, {**bounds, "entity_id": entity_id})
    if after is not None and seq:
        rows = _since(tx, rows, seq, at, after)
    return _page(rows[:limit], (seq, at))


def tail(tx: Tx, *, limit: int, entity_id: str | None, upto: int = EVERYTHING) -> Page[Event]:
    if entity_id is None:
        rows = tx.execute(TAIL, {"limit": limit, "upto": upto})
    else:
        rows = tx.execute(TAIL_OF_ENTITY, {"limit": limit, "upto": upto, "entity_id": entity_id})
    return _page(rows[::-1], (0, 0.0))


def _since(tx: Tx, rows: Sequence[Row], seq: int, at: float, cursor: Cursor) -> Sequence[Row]:
    """Return the events after the cursor's event, if that event is or was one of this store."""
    if rows and rows[0][0] == seq:
        if rows[0][1] != at:
            raise CursorLost(cursor)
        return rows[1:]
    # It was forgotten, or it is none of the entity's, or it never was.
    last = tx.execute(LAST)[0][0]
    if last is None or last < seq:
        raise CursorLost(cursor)
    return rows


def _page(rows: Sequence[Row], otherwise: tuple[int, float]) -> Page[Event]:
    place = (rows[-1][0], rows[-1][1]) if rows else otherwise
    # What only newer replicas know is theirs to show.
    items = tuple(_event(row) for row in rows if row[_ENTITY] in _ENTITIES)
    return Page(items=items, next=cursors.encode("events", *place))


def changes(tx: Tx, *, since: float, limit: int) -> Sequence[Event]:
    rows = tx.execute(CHANGES, {"since": since, "limit": limit})
    return [_event(row) for row in rows if row[_ENTITY] in _ENTITIES]


def acts(tx: Tx, *, since: float, after: Cursor | None, limit: int) -> Page[Event]:
    at, seq = (since, 0) if after is None else cursors.decode("acts", after, float, int)
    rows = tx.execute(ACTS, {"at": at, "seq": seq, "limit": limit + 1})
    shown = rows[:limit]
    items = tuple(_event(row) for row in shown if row[_ENTITY] in _ENTITIES)
    place = cursors.encode("acts", shown[-1][1], shown[-1][0]) if len(rows) > limit else None
    return Page(items=items, next=place)


def _event(row: Row) -> Event:
    seq, at, entity, entity_id, version, name, changes, detail, actor = row
    return Event(
        id=EventId(f"ev-{seq}"),
        at=at,
        entity=_ENTITIES[entity],
        entity_id=entity_id,
        version=version,
        name=name,
        changes=from_json(changes),
        detail=detail,
        actor=actor,
    )
