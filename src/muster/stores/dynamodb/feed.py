"""The event feed: a fixed number of logs, each numbered in the order of its commits.

An entity's events go to one log, chosen by its id. A log's head is an item. The appending transaction moves
the head from the number that it saw, so numbers rise with commits. A reader that has seen number n of a log
has seen all before it. Numbers are times in microseconds, made to rise. So a write that follows an answered
write comes after it in every log, as far as the replicas' clocks agree. Merged logs respect causes; within a
log, no clock can disturb the order. A cursor is one number per log.

A head says what was committed, not what can be read: DynamoDB shows a transaction's items one by one. So
nothing is shown, and no cursor goes, beyond the number up to which a log is whole. Each event names the one
before it, and `feed_horizon` follows these names.

Writers of one process take turns at a log. A writer of another process learns the head from its refusal and
tries again. A writer that must wait gives up its turns meanwhile.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from muster.domain.errors import CursorLost, InvalidRequest, StoreUnavailable
from muster.domain.events import WORK, Draft, Entity, Event, of_note
from muster.domain.ids import EventId
from muster.domain.reasons import Reason
from muster.ports.clock import Clock
from muster.ports.commits import AfterCommit
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.aws_client import Refused
from muster.stores.dynamodb.table import TRIES, Table, expressed
from muster.stores.dynamodb.values import Item, Key, decoded, encoded, moment, named, packed, unpacked, whole
from muster.stores.dynamodb.writes import MOST, Told, Write

SETTLED = 300.0
"""Seconds. The SDK repeats a call under its number for little more than a minute, and DynamoDB applies
what it accepted at once. The rest is for clocks that disagree.
"""


class FeedHorizon:
    def __init__(self, table: Table, *, shards: int, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._turns = tuple(asyncio.Lock() for _ in range(shards))
        self._known = [0] * shards

    async def whole(self, log: int, head: int) -> int:
        """Return up to where the log is whole; at most the head that was seen."""
        async with self._turns[log]:
            settled = int((self._clock.now() - SETTLED) * 1e6)
            known = max(self._known[log], min(settled, head))
            if known < head:
                known = await self._followed(log, known, head)
            self._known[log] = known
            return min(known, head)

    async def _followed(self, log: int, place: int, head: int) -> int:
        low, high = keys.event(log, place + 1), keys.event(log, head)
        found = await self._table.query(low[0], low=low[1], high=high[1], only="#SK, #after")
        for item in found:
            witness = (low[0], str(item["SK"]))
            before = whole(item, "after")
            if before > place and not await self._forgotten(keys.event(log, before), witness):
                return place
            place = int(witness[1])
        if place < head and await self._forgotten(keys.event(log, head), keys.head(log)):
            return head
        return place

    async def _forgotten(self, event: Key, witness: Key) -> bool:
        """Return whether an event that was committed before the witness was deleted."""
        found = await self._table.get_together([event, witness])
        return found is not None and witness in found and event not in found


_OPERATORS = (Entity.TEMPLATE, Entity.INSTALLATION)
"""Operators cause the changes of these."""
_ENTITY = 1
"""Where an event's data names it."""
_ENTITIES = {entity.value: entity for entity in Entity}
_MOVED = "(attribute_not_exists(#n) AND :seen = :nothing) OR #n = :seen"
_BUSY = (
    "TransactionConflict",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
    "TransactionConflictException",
)
_FAILED = "ConditionalCheckFailed"
REFUSALS = 4
"""In a row that tell how far a log is, before the others of this process get their turn."""


class Feed:
    def __init__(
        self,
        table: Table,
        *,
        shards: int,
        clock: Clock,
        after_commit: AfterCommit,
        keep: float | None = None,
    ) -> None:
        self.table = table
        self._clock = clock
        self.shards = shards
        self._after_commit = after_commit
        self._keep = keep
        self._turns = tuple(asyncio.Lock() for _ in range(shards))
        self._heads = [0] * shards
        self._time = 0
        self._chain = FeedHorizon(table, shards=shards, clock=clock)

    # --- writing ----------------------------------------------------------------------------------

    async def commit(self, write: Write) -> None:
        """Commit a transaction with its events. Raises the meaning of the first refused condition."""
        logs = sorted({self._log_of(each) for each in write.told})
        for attempt in range(TRIES):
            if await self._committed(write, logs, again=attempt > 0):
                break
            await self.table.back_off(attempt)
        else:
            raise StoreUnavailable(
                f"cannot write to {self.table.name}: others write the same items all the time;"
                " it is tried again"
            )
        if write.told:
            self._after_commit(write.written)

    async def note(
        self,
        entity_id: str,
        name: str,
        *,
        reason: Reason | None,
        detail: str,
        now: float,
        actor: str = "",
    ) -> None:
        write = Write()
        write.tell(of_note(entity_id, name, reason=reason, detail=detail, actor=actor), at=now)
        await self.commit(write)

    async def _committed(self, write: Write, logs: Sequence[int], *, again: bool) -> bool:
        """Try the commit in turn at each log. False: another transaction held one of the items."""
        async with AsyncExitStack() as turns:
            for log in logs:
                await turns.enter_async_context(self._turns[log])
            if again:
                await self._look(logs)
            for _ in range(REFUSALS):
                last, items = self._numbered(write, logs)
                try:
                    await self.table.aws.dynamodb("transact_write_items", TransactItems=items)
                except Refused as refused:
                    self._raise_refusal(write, refused)
                    if not self._learned(refused, len(write.actions), logs):
                        return False
                    continue
                self._time = max(self._time, *last.values()) if last else self._time
                for log, number in last.items():
                    self._heads[log] = number
                return True
        return False

    def _log_of(self, told: Told) -> int:
        return keys.shard(told.draft.entity_id, self.shards)

    def _numbered(self, write: Write, logs: Sequence[int]) -> tuple[dict[int, int], list[dict[str, Any]]]:
        """Return the last number of each log, and all items: those of the write, the heads, the events."""
        number = max([self._time, int(self._clock.now() * 1e6), *(self._heads[log] for log in logs)])
        last = {log: self._heads[log] for log in logs}
        events = []
        for each in write.told:
            number += 1
            log = self._log_of(each)
            item = self._item(each, log, number, after=last[log])
            events.append(self._action("Put", {"Item": item}))
            last[log] = number
        heads = [self._action("Update", self._moved(log, last[log])) for log in logs]
        own = [self._action(kind, body) for kind, body, _ in write.actions]
        items = [*own, *heads, *events]
        assert len(items) <= MOST, f"{len(items)} items in one transaction"  # noqa: S101 — ours to see to
        return last, items

    def _action(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {kind: {"TableName": self.table.name, **body}}

    def _moved(self, log: int, number: int) -> dict[str, Any]:
        values = {"seen": self._heads[log], "nothing": 0, "to": number}
        return {
            "Key": named(keys.head(log)),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            **expressed({"UpdateExpression": "SET #n = :to", "ConditionExpression": _MOVED}, values),
        }

    def _item(self, told: Told, log: int, number: int, *, after: int) -> Mapping[str, Any]:
        draft = told.draft
        data = [told.at, draft.entity.value, draft.entity_id, draft.version, draft.name, draft.changes]
        acts = _acts_of(draft)
        item = {
            "d": packed([*data, draft.detail, draft.actor]),
            "after": after,
            "tp": acts,
            "ts": None if acts is None else moment(told.at, keys.digits(number)),
            "at": told.at,
            "es": _place(draft.entity_id, number),
            "expires": None if self._keep is None else int(told.at + self._keep),
        }
        return {**encoded(item), **named(keys.event(log, number))}

    def _raise_refusal(self, write: Write, refused: Refused) -> None:
        for (_, _, meaning), (code, old) in zip(write.actions, refused.reasons, strict=False):
            if code == _FAILED and meaning is not None:
                raise meaning(None if old is None else decoded(old)) from refused
        known = (_FAILED, "None", *_BUSY)
        if strange := [code for code, _ in refused.reasons if code not in known]:
            raise StoreUnavailable(f"cannot write to {self.table.name}: {strange[0]}") from refused

    def _learned(self, refused: Refused, own: int, logs: Sequence[int]) -> bool:
        """Return whether the refusal told how far a log is."""
        learned = False
        for log, (code, old) in zip(logs, refused.reasons[own:], strict=False):
            if code == _FAILED:
                self._heads[log] = 0 if old is None else whole(decoded(old), "n")
                learned = True
        return learned

    # --- reading ----------------------------------------------------------------------------------

    async def page(self, *, after: Cursor | None, limit: int, entity_id: str | None = None) -> Page[Event]:
        start = [0] * self.shards if after is None else self._opened(after)
        if entity_id is not None:
            return await self._page_of_entity(entity_id, start, limit)
        heads = await self.heads()
        if after is not None and any(place > head for place, head in zip(start, heads, strict=True)):
            raise CursorLost(after)
        logs = [log for log in range(self.shards) if heads[log] > start[log]]
        wholes = await asyncio.gather(*(self._chain.whole(log, heads[log]) for log in logs))
        ends = dict(zip(logs, wholes, strict=True))
        found = await asyncio.gather(
            *(self._between(log, start[log], end, limit) for log, end in ends.items() if end > start[log])
        )
        merged = sorted(entry for part in found for entry in part)[:limit]
        for number, log, _ in merged:
            start[log] = number
        if len(merged) < limit:
            # All that there was: a log whose last events were pruned goes on where it is whole.
            for log, end in ends.items():
                start[log] = max(start[log], end)
        return Page(items=_events(merged), next=_cursor(start))

    async def _page_of_entity(self, entity_id: str, start: list[int], limit: int) -> Page[Event]:
        log = keys.shard(entity_id, self.shards)
        (head,) = await self._look([log])
        if start[log] > head:
            raise CursorLost(_cursor(start))
        end = head if start[log] == head else await self._chain.whole(log, head)
        if start[log] >= end:
            return Page(items=(), next=_cursor(start))
        low, high = _place(entity_id, start[log] + 1), _place(entity_id, end)
        found = await self.table.query(keys.feed(log), index="told", low=low, high=high, most=limit)
        entries = [_entry(log, item) for item in found]
        if entries:
            start[log] = entries[-1][0]
        return Page(items=_events(entries), next=_cursor(start))

    async def tail(self, *, limit: int, entity_id: str | None = None) -> Page[Event]:
        heads = enumerate(await self.heads())
        ends = await asyncio.gather(*(self._chain.whole(log, head) for log, head in heads))
        if entity_id is not None:
            log = keys.shard(entity_id, self.shards)
            low, high = _place(entity_id, 0), _place(entity_id, ends[log])
            items = await self.table.query(
                keys.feed(log), index="told", low=low, high=high, forward=False, most=limit
            )
            found = [[_entry(log, item) for item in items]]
        else:
            logs = [log for log in range(self.shards) if ends[log]]
            found = list(await asyncio.gather(*(self._before(log, ends[log], limit) for log in logs)))
        merged = sorted(entry for part in found for entry in part)[-limit:]
        return Page(items=_events(merged), next=_cursor(ends))

    async def heads(self) -> list[int]:
        return await self._look(range(self.shards))

    async def _look(self, logs: Sequence[int]) -> list[int]:
        found = await self.table.get_many([keys.head(log) for log in logs])
        heads = [whole(found.get(keys.head(log), {}), "n") for log in logs]
        # What was seen comes before what is written next. A head never goes back, but an answer may be old.
        self._time = max([self._time, *heads])
        for log, head in zip(logs, heads, strict=True):
            self._heads[log] = max(self._heads[log], head)
        return heads

    async def _between(self, log: int, number: int, end: int, limit: int) -> list["_Entry"]:
        low, high = keys.digits(number + 1), keys.digits(end)
        found = await self.table.query(keys.feed(log), low=low, high=high, most=limit)
        return [_entry(log, item) for item in found]

    async def _before(self, log: int, number: int, limit: int) -> list["_Entry"]:
        low, high = keys.digits(0), keys.digits(number)
        found = await self.table.query(keys.feed(log), low=low, high=high, forward=False, most=limit)
        return [_entry(log, item) for item in found]

    def _opened(self, cursor: Cursor) -> list[int]:
        (text,) = cursors.decode("events", cursor, str)
        numbers = [int(part) for part in text.split(".")]
        if len(numbers) != self.shards:
            raise InvalidRequest("cursor", cursor, "must be a cursor of this store")
        return numbers

    async def changes(self, *, since: float, limit: int) -> list[Event]:
        """Return what people and programs changed, newest first, by an index. No decision depends on it."""
        found: list[Event] = []
        walk = self.table.walk(keys.CHANGES, index="timed", low=moment(since), forward=False, page=limit)
        async with aclosing(walk) as items:
            async for item in items:
                log = int(str(item["PK"]).partition("#")[2])
                found.extend(_events([_entry(log, item)]))
                if len(found) == limit:
                    break
        return found

    async def acts(self, *, since: float, after: Cursor | None, limit: int) -> Page[Event]:
        """Return what people and programs did, oldest first, by the same index."""
        low = moment(since) if after is None else cursors.decode("acts", after, str)[0] + "\x00"
        parts = await asyncio.gather(
            *(
                self.table.query(kind, index="timed", low=low, most=limit + 1)
                for kind in (keys.CHANGES, keys.WORK)
            )
        )
        found = sorted((item for part in parts for item in part), key=lambda item: str(item["ts"]))
        shown = found[:limit]
        names = [(str(item["PK"]), str(item["SK"])) for item in shown]
        whole_items = await self.table.get_many(names)
        entries = [
            _entry(int(name[0].partition("#")[2]), whole_items[name]) for name in names if name in whole_items
        ]
        items = tuple(event for event in _events(entries) if event.actor)
        place = cursors.encode("acts", str(shown[-1]["ts"])) if len(found) > limit else None
        return Page(items=items, next=place)

    # --- forgetting -------------------------------------------------------------------------------

    async def prune(self, *, before: float, limit: int) -> int:
        """Delete the oldest end of each log, up to the first event that is young enough.

        Events with an expiry time are left to DynamoDB.
        """
        if self._keep is not None:
            return 0
        doomed: list[tuple[str, str]] = []
        for log in range(self.shards):
            left = limit - len(doomed)
            if left <= 0:
                break
            low, high = keys.digits(0), keys.LAST_EVENT
            oldest = await self.table.query(keys.feed(log), low=low, high=high, most=left)
            for item in oldest:
                if _at(item) >= before:
                    break
                doomed.append((str(item["PK"]), str(item["SK"])))
        await self.table.delete(doomed)
        return len(doomed)


_Entry = tuple[int, int, str]
"""Number, log, data: sorts by number."""


def _entry(log: int, item: Item) -> _Entry:
    data = item["d"]
    return int(str(item["SK"])), log, data  # type: ignore[return-value]  # bytes are compared like text


def _events(entries: Iterable[_Entry]) -> tuple[Event, ...]:
    """Return the events that this program knows; newer replicas show the rest."""
    told = [(log, number, unpacked(data)) for number, log, data in entries]
    return tuple(_event(log, number, said) for log, number, said in told if said[_ENTITY] in _ENTITIES)


def _event(log: int, number: int, said: Sequence[Any]) -> Event:
    at, entity, entity_id, version, name, changes, detail, actor = said
    return Event(
        id=EventId(f"ev-{log}-{number}"),
        at=at,
        entity=_ENTITIES[entity],
        entity_id=entity_id,
        version=version,
        name=name,
        changes=changes,
        detail=detail,
        actor=actor,
    )


def _acts_of(draft: Draft) -> str | None:
    """Return the list of acts that an event belongs to; None: it is no act."""
    if draft.actor and draft.name in WORK:
        return keys.WORK
    return keys.CHANGES if draft.actor or draft.entity in _OPERATORS else None


def _at(item: Item) -> float:
    return float(item["at"])  # type: ignore[arg-type]  # it was written as a number


def _place(entity_id: str, number: int) -> str:
    return f"{entity_id}#{keys.digits(number)}"


def _cursor(numbers: Sequence[int]) -> Cursor:
    return cursors.encode("events", ".".join(str(number) for number in numbers))
