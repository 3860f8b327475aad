"""Leases of operations and of duties: taken when they lapsed, renewed, given back.

This module owns who leads. A takeover of an operation is one transaction with its event, on condition of the
epoch and lease that were read. A renewal is one conditional write. No server expires the leases of others.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from muster.domain.events import of_takeover
from muster.domain.ids import OperationId
from muster.domain.operation import Fence, Operation
from muster.ports.store import LASTING, Cursor, DutyLease
from muster.stores.cursors import age
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.operation_items import known_of, lease_fields
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.table import Again, Table, gather_bounded
from muster.stores.dynamodb.values import Item, Value, key_of, moment, number, text
from muster.stores.dynamodb.writes import ABSENT, Write, again, given, setting
from muster.stores.records import not_the_holder


class Leases:
    def __init__(self, table: Table, feed: Feed, operations: Operations) -> None:
        self._table = table
        self._feed = feed
        self._operations = operations

    async def lease(
        self,
        owner: str,
        *,
        now: float,
        until: float,
        limit: int,
        absent_since: float | None = None,
        gone_since: float | None = None,
    ) -> Sequence[Operation]:
        """Take due operations. One that another replica takes at this moment is skipped."""
        abandoned = (
            []
            if absent_since is None
            else await self._abandoned(owner, now, absent_since=absent_since, gone_since=gone_since)
        )
        found = await self._table.query(keys.LEASED, index="timed", high=moment(now, keys.LAST), most=1000)
        items = await self._table.get_many([key_of(item) for item in found])
        lapsed = [each for each in known_of(items.values()) if not each.ended and each.lease_until <= now]
        taken: list[Operation] = []
        waiting = sorted(lapsed, key=age) + sorted(abandoned, key=age)
        while waiting and len(taken) < limit:
            some = waiting[: limit - len(taken)]
            waiting = waiting[len(some) :]
            ends = await gather_bounded([partial(self._take, each, owner, now, until) for each in some])
            taken += [end for end in ends if end is not None]
        if any(each.epoch > 1 for each in taken):
            # The earlier holder may have bound nodes in its last moment: the next holder has to see them.
            await self._table.settled()
        return sorted(taken, key=age)

    async def _abandoned(
        self, owner: str, now: float, *, absent_since: float, gone_since: float | None
    ) -> list[Operation]:
        """Return what absent replicas lead in a queue, and all that gone ones lead.

        Forget a replica that leads nothing.
        """
        await self._table.update(
            (keys.REPLICAS, owner),
            "SET #seen_at = :now",
            where=f"{ABSENT} OR #seen_at < :now",
            values={"now": now},
        )
        replicas = await self._table.query(keys.REPLICAS)
        seen = {text(each, "SK"): number(each, "seen_at") or 0.0 for each in replicas}
        absent = [name for name, at in seen.items() if at < absent_since]
        if not absent:
            return []
        led = [
            each
            for each in await self._operations.unended()
            if each.lease_owner in absent and each.lease_until > now
        ]
        leading = {each.lease_owner for each in led}
        await self._table.delete([(keys.REPLICAS, each) for each in absent if each not in leading])
        gone = [name for name in absent if gone_since is not None and seen[name] < gone_since]
        return [each for each in led if each.queued_since is not None or each.lease_owner in gone]

    async def seize(self, operation_id: OperationId, owner: str, *, now: float, until: float) -> Operation:
        """Take a lease. Raises Again if it moved since it was read."""
        found = await self._operations.get(operation_id)
        if found.ended:
            return found
        taken = await self._take(found, owner, now, until)
        if taken is None:
            raise Again(operation_id)
        await self._table.settled()
        return taken

    async def _take(self, free: Operation, owner: str, now: float, until: float) -> Operation | None:
        taken = replace(free, lease_owner=owner, lease_until=until, epoch=free.epoch + 1)
        sets = {**lease_fields(taken), "epoch": taken.epoch}
        write = Write()
        write.update(
            keys.operation(free.id),
            setting(sets),
            {**given(sets), "before": free.epoch, "lapsed": free.lease_until, "no": False},
            where="#epoch = :before AND #lease_until = :lapsed AND #ended = :no",
            refused=again(free.id),
        )
        if taken.epoch > 1:
            write.tell(of_takeover(taken), at=now)
        try:
            await self._feed.commit(write)
        except Again:
            return None
        return taken

    async def renew(self, owner: str, fences: Sequence[Fence], *, until: float) -> Sequence[Fence]:
        held = tuple(dict.fromkeys(fences))
        ends = await gather_bounded([partial(self._renew, owner, fence, until) for fence in held])
        renewed = {fence for fence, end in zip(held, ends, strict=True) if end}
        return [fence for fence in fences if fence in renewed]

    async def _renew(self, owner: str, fence: Fence, until: float) -> bool:
        return await self._table.update(
            keys.operation(fence.operation_id),
            "SET #lease_until = :until, #ts = :ts",
            where="#epoch = :epoch AND #lease_owner = :owner AND #ended = :no",
            values={
                "until": until,
                "ts": moment(until, fence.operation_id),
                "epoch": fence.epoch,
                "owner": owner,
                "no": False,
            },
        )

    async def expire(self, owner: str | None = None) -> int:
        unended = [each for each in await self._operations.unended() if each.lease_owner is not None]
        held = [each for each in unended if owner in (None, each.lease_owner)]
        ends = await gather_bounded([partial(self._expire, each) for each in held])
        duties = [
            duty
            for duty in await self._table.query(keys.DUTIES)
            if owner in (None, duty["lease_owner"]) and not text(duty, "SK").startswith(LASTING)
        ]
        await gather_bounded([partial(self._free_duty, duty) for duty in duties])
        replicas = [text(each, "SK") for each in await self._table.query(keys.REPLICAS)]
        await self._table.delete([(keys.REPLICAS, each) for each in replicas if owner in (None, each)])
        return sum(ends)

    async def _expire(self, held: Operation) -> bool:
        free = lease_fields(replace(held, lease_owner=None, lease_until=0.0))
        return await self._table.update(
            keys.operation(held.id),
            setting(free),
            where="#epoch = :epoch AND #ended = :no",
            values={**given(free), "epoch": held.epoch, "no": False},
        )

    async def _free_duty(self, duty: Item) -> None:
        await self._table.update(
            (keys.DUTIES, text(duty, "SK")),
            "SET #lease_until = :zero",
            where="#lease_owner = :owner",
            values={"zero": 0, "owner": duty["lease_owner"]},
        )

    async def lease_duty(self, name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        tick = DutyLease(name=name, until=until, ticked_at=now, problem=problem)
        return await self._lease_duty(owner, tick, now)

    async def lease_duties(self, owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        """Lease duties one by one, at once: none waits for another's condition."""
        held = await gather_bounded([partial(self._lease_duty, owner, each, now) for each in duties])
        return [each.name for each, is_held in zip(duties, held, strict=True) if is_held]

    async def _lease_duty(self, owner: str, duty: DutyLease, now: float) -> bool:
        fields: dict[str, Value] = {"lease_owner": owner, "lease_until": duty.until, "problem": duty.problem}
        if duty.ticked_at is not None:
            fields["ticked_at"] = duty.ticked_at
        return await self._table.update(
            (keys.DUTIES, duty.name),
            setting(fields),
            where=f"{ABSENT} OR #lease_owner = :owner OR #lease_until <= :now",
            values={**given(fields), "owner": owner, "now": now},
        )

    async def bookmark(self, duty: str) -> Cursor | None:
        found = (await self._table.get((keys.DUTIES, duty)) or {}).get("bookmark")
        return None if found is None else Cursor(str(found))

    async def move_bookmark(self, duty: str, owner: str, cursor: Cursor) -> None:
        moved = await self._table.update(
            (keys.DUTIES, duty),
            "SET #bookmark = :cursor",
            where="#lease_owner = :owner",
            values={"cursor": cursor, "owner": owner},
        )
        if not moved:
            raise not_the_holder(duty, owner)
