"""Health and last contact of nodes: one item per node, apart from its record.

This module owns those items, which lie in a few partitions. An item is created with the node's record and
deleted when the node is gone. So a beat is one conditional write without a read. It moves back only a time
that a wrong clock wrote, and never creates an item. The duties read whole partitions, because an index over
beat times would cost more than all other writes. `c` counts changes other than plain beats. A decision on an
older count is made again.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from muster.domain import events as drafts
from muster.domain import serialization
from muster.domain.deadlines import CLOCK_ERROR, Watch, last_tick
from muster.domain.errors import Conflict
from muster.domain.health import HEALTH_FIELDS, Health, HealthChange, HealthSource, Vitals
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.pace import Pace
from muster.ports.store import NO_NODES, Alive, Beat
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table, gather_bounded
from muster.stores.dynamodb.values import Item, Key, Value, moment, number, text, whole
from muster.stores.dynamodb.writes import ABSENT, THERE, Write, given, setting

_SUSPECT = """
    #known = :yes AND (
        #news = :yes
        OR (#health = :offline AND (#seen_at >= :stale OR attribute_exists(#probe_passing_since)))
        OR (#health = :starting AND #joined_at < :settled)
        OR (#seen_at < :stale AND #health <> :offline)
        OR (attribute_not_exists(#seen_at) AND #joined_at < :stale AND #health <> :offline)
    )
"""
_UNPROBED: dict[str, Value] = {"probe_failures": 0, "probe_passing_since": None, "probed_at": None}


REMEMBERED = 200_000
"""Nodes whose last beat is remembered; beyond that, all are forgotten and each is written once more."""
_Decide = Callable[[Item], dict[str, Value] | None]
"""What to set of an item; None: nothing."""


class Liveness:
    def __init__(self, table: Table, feed: Feed, *, shards: int) -> None:
        self._table = table
        self._feed = feed
        self._shards = shards

    def key(self, node_id: str) -> Key:
        return keys.seen(node_id, self._shards)

    # --- with the node's own write ----------------------------------------------------------------

    def begin(self, write: Write, node: Node, **more: Value) -> None:
        """Create the item with the node's record. Its health is unknown unless the node is up."""
        first: dict[str, Value] = {
            "c": 1,
            "template": node.template,
            "health": Health.STARTING.value,
            "health_since": 0.0,
            **more,
        }
        if node.state is NodeState.TERMINATING:
            first |= self.stays(False)
        if node.up:
            first |= {"known": True, "said": Health.READY.value, "news": True}
        write.put(self.key(node.id), first)

    @staticmethod
    def joined(node: Node, *, again: bool, stall_after: float | None) -> dict[str, Value]:
        """Reset what was known of an earlier boot."""
        return {
            "known": True,
            "boot_id": node.boot_id or "",
            "joined_at": node.joined_at,
            "advanced_at": node.joined_at,
            "stall_after": stall_after,
            "said": None,
            "said_reason": "",
            "activity": 0,
            "news": again,
            **_UNPROBED,
            **_booting(node.id, not node.up),
        }

    async def noted(self, write: Write, change: NodeChange, sets: Mapping[str, Value]) -> None:
        """Return what a node's write changes here, and its conditions on stillness and silence."""
        conditions, values = [], dict(given(sets, bump="c"))
        if change.still_since is not None:
            conditions.append("(attribute_not_exists(#advanced_at) OR #advanced_at <= :still)")
            values["still"] = change.still_since
        if change.silent_since is not None:
            conditions.append("(attribute_not_exists(#seen_at) OR #seen_at <= :silent)")
            values["silent"] = change.silent_since
        where = " AND ".join(conditions) or None
        if not sets and where is None:
            return
        node_id = change.after.id
        write.update(
            self.key(node_id),
            setting(sets, bump="c"),
            values,
            where=where,
            refused=lambda _item: Conflict(
                f"cannot judge node {node_id}: it was seen or moved since; look again"
            ),
        )

    async def advanced_to(self, node_id: NodeId, at: float) -> dict[str, Value]:
        item = await self._table.get(self.key(node_id))
        before = None if item is None else number(item, "advanced_at")
        return {"advanced_at": at if before is None else max(at, before)}

    @staticmethod
    def booted(node_id: NodeId) -> dict[str, Value]:
        """Mark the node as up and ready; from now on its silence counts."""
        word: dict[str, Value] = {"known": True, "said": Health.READY.value, "said_reason": "", "news": True}
        return {**word, **_booting(node_id, False)}

    @staticmethod
    def stopped_booting(node_id: NodeId) -> dict[str, Value]:
        return _booting(node_id, False)

    @staticmethod
    def stays(stays: bool) -> dict[str, Value]:
        """Return whether the node counts in the health figures."""
        return {"leaving": None if stays else True}

    def forget_probes(self, write: Write, node_id: NodeId) -> None:
        """Delete what probes found."""
        write.update(self.key(node_id), setting(_UNPROBED, bump="c"), given(_UNPROBED, bump="c"))

    async def set_stale_after(self, node_id: NodeId, *, stale_after: float) -> None:
        """Store how often the node beats, as it said at its join."""
        await self._table.update(
            self.key(node_id), "SET #stale_after = :stale", where=THERE, values={"stale": stale_after}
        )

    # --- beats ------------------------------------------------------------------------------------

    async def record(self, beats: Sequence[Beat]) -> None:
        """Write each beat by itself. A beat that loses to a later one, or to the node's end, is no error."""
        await gather_bounded([partial(self._beat, beat) for beat in beats])

    async def _beat(self, beat: Beat) -> None:
        if beat.activity is None and beat.said is None:
            await self._table.update(
                self.key(beat.node_id),
                "SET #seen_at = :at, #known = :yes",
                where=f"{THERE} AND (attribute_not_exists(#seen_at) OR #seen_at < :at OR #seen_at > :wrong)",
                values={"at": beat.seen_at, "wrong": beat.seen_at + CLOCK_ERROR, "yes": True},
            )
        else:
            await self._revise(beat.node_id, partial(_beaten, beat))

    async def _revise(self, node_id: NodeId, decide: _Decide) -> None:
        """Read, decide, and write if nothing but plain beats came between."""

        async def once() -> None:
            item = await self._table.get(self.key(node_id))
            sets = None if item is None else decide(item)
            if item is None or sets is None:
                return
            values = {**given(sets, bump="c"), "counted": whole(item, "c")}
            where = "#c = :counted"
            if isinstance(seen_at := sets.get("seen_at"), float):
                values["wrong"] = seen_at + CLOCK_ERROR
                where += " AND (attribute_not_exists(#seen_at) OR #seen_at <= :seen_at OR #seen_at > :wrong)"
            change = setting(sets, bump="c")
            if not await self._table.update(self.key(node_id), change, where=where, values=values):
                raise Again(node_id)

        await self._table.repeated(once)

    async def record_probe(self, node_id: NodeId, *, passed: bool, now: float) -> None:
        # Who asks whether the watch began anew pays for a look at it: only those that failed have to.
        watch = None if passed else await self._table.get(keys.WATCH)
        since = None if watch is None else number(watch, "since")
        await self._revise(node_id, partial(_probed, passed, now, since or 0.0))

    async def mark_news_judged(self, judged: Sequence[Vitals]) -> None:
        await gather_bounded(
            [partial(self._revise, each.node_id, partial(_news_judged, each)) for each in judged]
        )

    # --- health -----------------------------------------------------------------------------------

    async def write_health(self, change: HealthChange) -> Vitals:
        before, after = change.before, change.after
        disowned = after.health is Health.OFFLINE and after.health_source is not HealthSource.HEARTBEAT
        where = "#boot_id = :boot AND (attribute_not_exists(#health_version) AND :expected = :nothing"
        where += " OR #health_version = :expected)"
        values: dict[str, Value] = {"boot": before.boot_id, "expected": before.health_version, "nothing": 0}
        if not before.boot_id:
            where = where.replace("#boot_id = :boot", "(attribute_not_exists(#boot_id) OR #boot_id = :boot)")
        if disowned and before.seen_at is None:
            where += " AND attribute_not_exists(#seen_at)"
        elif disowned:
            where, values["seen"] = f"{where} AND #seen_at = :seen", before.seen_at
        sets: dict[str, Value] = {
            **{name: getattr(after, name) for name in HEALTH_FIELDS},
            **_offline(after),
        }
        write = Write()
        write.update(
            self.key(before.node_id),
            setting(sets),
            {**given(sets), **values},
            where=f"{THERE} AND {where}",
            refused=lambda _item: Conflict(
                f"cannot write the health of node {before.node_id}: it has moved on; read it again"
            ),
        )
        node = await self._table.get(keys.node(before.node_id))
        concerned = () if node is None or node.get("op") is None else (text(node, "op"),)
        write.tell(drafts.of_health(change), at=change.at, operations=concerned)  # type: ignore[arg-type]
        await self._feed.commit(write)
        return after

    # --- reading ----------------------------------------------------------------------------------

    async def last_seen(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
        found = await self._table.get_many([self.key(node_id) for node_id in node_ids])
        seen = {NodeId(key[1]): number(item, "seen_at") for key, item in sorted(found.items())}
        return {node_id: at for node_id, at in seen.items() if at is not None}

    async def get(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, Vitals]:
        found = await self._table.get_many([self.key(node_id) for node_id in node_ids])
        return {NodeId(key[1]): vitals(item) for key, item in sorted(found.items()) if item.get("known")}

    async def suspects(
        self, *, stale_before: float, settled_before: float, after: NodeId | None, limit: int
    ) -> Sequence[Vitals]:
        values: dict[str, Value] = {
            "yes": True,
            "offline": Health.OFFLINE.value,
            "starting": Health.STARTING.value,
            "stale": stale_before,
            "settled": settled_before,
        }
        low = None if after is None else f"{after}\x00"
        parts = await asyncio.gather(
            *(
                self._table.query(f"SEEN#{shard:04d}", low=low, where=_SUSPECT, values=values, most=limit)
                for shard in range(self._shards)
            )
        )
        found = sorted((vitals(item) for part in parts for item in part), key=lambda each: each.node_id)
        return found[:limit]

    async def counted(self) -> Mapping[str, Mapping[Health, int]]:
        """Count the health of joined nodes by template."""
        where = "#known = :yes AND attribute_not_exists(#leaving)"
        parts = await asyncio.gather(
            *(
                self._table.query(f"SEEN#{shard:04d}", where=where, values={"yes": True})
                for shard in range(self._shards)
            )
        )
        found: dict[str, dict[Health, int]] = {}
        for item in (item for part in parts for item in part):
            counts = found.setdefault(text(item, "template"), dict.fromkeys(Health, 0))
            counts[Health(text(item, "health"))] += 1
        return found

    async def offline_since(self, before: float) -> list[NodeId]:
        """Return offline nodes, longest first, found by an index and read as they are now."""
        found = await self._table.query(keys.OFFLINE, index="timed", high=moment(before))
        return [NodeId(text(item, "SK")) for item in found]

    async def booting(self) -> list[tuple[NodeId, Item]]:
        return [
            (NodeId(text(item, "SK")), item)
            async for item in self._table.walk(keys.BOOTING, index="scoped")
            if item.get("sp") == keys.BOOTING
        ]

    # --- the watch --------------------------------------------------------------------------------

    async def watch(self, *, now: float, gap: float, grace: float = 0.0, beat: float | None = None) -> Watch:
        item = await self._table.get(keys.WATCH)
        ticked = now if item is None else number(item, "ticked") or 0.0
        before = Watch(since=now) if item is None else _watch(item)
        watch = before.ticked(ticked, now=now, gap=gap, grace=grace, beat=beat)
        pace = watch.pace
        sets: dict[str, Value] = {
            "since": watch.since,
            "ticked": last_tick(ticked, now=now),
            "away": watch.away_from,
            "beat": None if pace is None else pace.beat_seconds,
            "longest": None if pace is None else pace.longest,
            "longest_until": None if pace is None else pace.longest_until,
        }
        where = ABSENT if item is None else "#ticked = :before"
        values = given(sets) if item is None else {**given(sets), "before": ticked}
        if not await self._table.update(keys.WATCH, setting(sets), where=where, values=values):
            raise Again("watch")
        return watch


def _watch(item: Item) -> Watch:
    beat, longest = number(item, "beat"), number(item, "longest")
    pace = None
    if beat is not None and longest is not None:
        until = number(item, "longest_until") or 0.0
        pace = Pace(beat_seconds=beat, longest=longest, longest_until=until)
    return Watch(since=number(item, "since") or 0.0, away_from=number(item, "away"), pace=pace)


class Beats:
    """Heartbeats at a price: a node's are written once in a while, and at once if they say something new.

    A beat that is left out is no loss: `stale_after` is several times the pause, and the next one is written.
    Remembers what this process wrote; another one that hears the same node writes it once more.
    """

    def __init__(self, liveness: Liveness, *, every: float) -> None:
        self._liveness = liveness
        self._every = every
        self._written: dict[NodeId, tuple[float, Health | None, str]] = {}

    async def record(self, beats: Sequence[Beat], alive: Alive = NO_NODES) -> None:
        newest: dict[NodeId, Beat] = {}
        for at in sorted(alive):
            newest.update((node_id, Beat(node_id, at)) for node_id in alive[at])
        for beat in beats:
            seen = newest.get(beat.node_id, beat).seen_at
            newest[beat.node_id] = beat._replace(seen_at=max(seen, beat.seen_at))
        due = [beat for beat in newest.values() if self._due(beat)]
        await self._liveness.record(due)
        if len(self._written) > REMEMBERED:
            self._written.clear()
        for beat in due:
            self._written[beat.node_id] = (beat.seen_at, beat.said, beat.reason)

    def _due(self, beat: Beat) -> bool:
        at, said, reason = self._written.get(beat.node_id, (None, None, ""))
        if at is None or beat.seen_at >= at + self._every:
            return True
        # An older beat than one that was written is for the store to judge.
        return beat.seen_at < at or (beat.said is not None and (beat.said, beat.reason) != (said, reason))


def vitals(item: Item) -> Vitals:
    """Decode vitals; a missing value has its default."""
    return serialization.from_plain(Vitals, {**item, "node_id": text(item, "SK")})


def _booting(node_id: str, booting: bool) -> dict[str, Value]:
    return {"sp": keys.BOOTING, "ss": node_id} if booting else {"sp": None, "ss": None}


def _offline(after: Vitals) -> dict[str, Value]:
    if after.health is not Health.OFFLINE:
        return {"tp": None, "ts": None}
    return {"tp": keys.OFFLINE, "ts": moment(after.health_since, after.node_id)}


def _beaten(beat: Beat, item: Item) -> dict[str, Value] | None:
    """Return the changes of a beat that says more than that the node lives.

    What is said at the time of the last beat counts too: times come in steps, and a last message is sent
    once.
    """
    before = vitals(item)
    if before.seen_at is not None and beat.seen_at < before.seen_at <= beat.seen_at + CLOCK_ERROR:
        return None
    sets: dict[str, Value] = {"known": True, "seen_at": beat.seen_at}
    if not item.get("known"):
        sets["news"] = True
    if beat.activity is not None and beat.activity > before.activity:
        sets["activity"] = beat.activity
        if before.advanced_at is not None:
            sets["advanced_at"] = beat.seen_at
    # Of `starting` only its liveness counts, once the node said more.
    if beat.said is not None and (beat.said is not Health.STARTING or before.said is None):
        if (beat.said, beat.reason) != (before.said, before.said_reason):
            sets["news"] = True
        sets |= {"said": beat.said.value, "said_reason": beat.reason}
    return sets


def _probed(passed: bool, now: float, watched_since: float, item: Item) -> dict[str, Value] | None:
    before = vitals(item)
    if not item.get("known") or (before.probed_at is not None and before.probed_at >= now):
        return None
    since = before.probe_passing_since
    forgotten = before.probed_at is not None and before.probed_at < watched_since
    return {
        "probed_at": now,
        "news": True,
        "probe_failures": 0 if passed else (0 if forgotten else before.probe_failures) + 1,
        "probe_passing_since": (now if since is None else since) if passed else None,
    }


def _news_judged(judged: Vitals, item: Item) -> dict[str, Value] | None:
    """Return the news without what was judged; what was said since then stays."""
    now = vitals(item)
    same = (now.said, now.said_reason, now.probed_at, now.boot_id) == (
        judged.said,
        judged.said_reason,
        judged.probed_at,
        judged.boot_id,
    )
    return {"news": False} if same and now.news else None
