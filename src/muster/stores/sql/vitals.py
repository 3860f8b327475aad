"""Health of nodes: the judged half of the liveness table, and since when Muster watches.

This module owns the guarded write of health with its event, and the queries by which each duty finds its few
among many.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from muster.domain import events as drafts
from muster.domain.deadlines import Watch, last_tick
from muster.domain.errors import Conflict
from muster.domain.health import HEALTH_FIELDS, Health, HealthChange, HealthSource, Vitals
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.pace import Pace
from muster.stores.sql import events, statements
from muster.stores.sql.rows import NODE, VITALS
from muster.stores.sql.tx import Tx

# Each branch reads an index of its own; together they are the few whose health may have to change. What is
# put behind node_id keeps SQLite off the primary key, which leads past every healthy node.
SUSPECTS = f"""
    SELECT {VITALS.select} FROM liveness WHERE node_id IN (
        SELECT node_id FROM liveness WHERE news = 1 AND node_id > :after
        UNION
        SELECT node_id FROM liveness
        WHERE health = 'offline' AND (seen_at >= :stale_before OR probe_passing_since IS NOT NULL)
          AND node_id || '' > :after
        UNION
        SELECT node_id FROM liveness
        WHERE health = 'starting' AND joined_at < :settled_before AND node_id > :after
        UNION
        SELECT node_id FROM liveness
        WHERE seen_at < :stale_before AND health <> 'offline' AND node_id > :after
        UNION
        SELECT node_id FROM liveness
        WHERE seen_at IS NULL AND joined_at < :stale_before AND health <> 'offline' AND node_id > :after
    ) ORDER BY node_id LIMIT :limit
"""
STALLED = f"""
    SELECT {NODE.select} FROM (
        SELECT {NODE.qualified("n")}, l.advanced_at AS since FROM liveness AS l CROSS JOIN nodes AS n
        WHERE l.booting = 1 AND l.stall_after IS NULL AND l.advanced_at < :before AND n.id = l.node_id
        UNION ALL
        SELECT {NODE.qualified("n")}, l.advanced_at AS since FROM liveness AS l CROSS JOIN nodes AS n
        WHERE l.booting = 1 AND l.stall_after IS NOT NULL AND l.advanced_at < :now
          AND l.advanced_at < :now - l.stall_after
          AND n.id = l.node_id
    ) AS still ORDER BY since, id LIMIT :limit
"""
_JUDGED = ", ".join(f"{name} = :{name}" for name in HEALTH_FIELDS)


def get(tx: Tx, node_ids: Sequence[NodeId]) -> Mapping[NodeId, Vitals]:
    found: dict[NodeId, Vitals] = {}
    for chunk in statements.in_chunks(tuple(dict.fromkeys(node_ids))):
        sql = f"""
            SELECT {VITALS.select} FROM liveness
            WHERE node_id IN ({statements.placeholders("id", len(chunk))}) ORDER BY node_id
        """
        for row in tx.execute(sql, statements.bind("id", chunk)):
            vitals = VITALS.decode(row)
            found[vitals.node_id] = vitals
    return found


_WATCHED = "since, away_from, beat_seconds, longest_beat, longest_beat_until, ticked_at"
_WATCH = f"""
    INSERT INTO watch (id, {_WATCHED})
    VALUES (1, :since, :away_from, :beat_seconds, :longest_beat, :longest_beat_until, :ticked_at)
    ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _WATCHED.split(", "))}
"""


def watch(tx: Tx, *, now: float, gap: float, grace: float = 0.0, beat: float | None = None) -> Watch:
    rows = tx.execute(f"SELECT {_WATCHED} FROM watch WHERE id = 1{tx.locks.hold}")
    before, ticked_at = (_watch(*rows[0][:-1]), rows[0][-1]) if rows else (Watch(since=now), now)
    watch = before.ticked(ticked_at, now=now, gap=gap, grace=grace, beat=beat)
    pace = watch.pace
    tx.change(
        _WATCH,
        {
            "since": watch.since,
            "away_from": watch.away_from,
            "beat_seconds": None if pace is None else pace.beat_seconds,
            "longest_beat": None if pace is None else pace.longest,
            "longest_beat_until": None if pace is None else pace.longest_until,
            "ticked_at": last_tick(ticked_at, now=now),
        },
    )
    return watch


def _watch(
    since: float, away_from: float | None, beat: float | None, longest: float, longest_until: float
) -> Watch:
    pace = None if beat is None else Pace(beat_seconds=beat, longest=longest, longest_until=longest_until)
    return Watch(since=since, away_from=away_from, pace=pace)


def suspects(
    tx: Tx, *, stale_before: float, settled_before: float, after: NodeId | None, limit: int
) -> Sequence[Vitals]:
    params = {
        "stale_before": stale_before,
        "settled_before": settled_before,
        "after": after or "",
        "limit": limit,
    }
    return VITALS.all(tx.execute(SUSPECTS, params))


def write_health(tx: Tx, change: HealthChange) -> Vitals:
    before, after = change.before, change.after
    disowned = after.health is Health.OFFLINE and after.health_source is not HealthSource.HEARTBEAT
    unseen = "AND seen_at IS NOT DISTINCT FROM :seen_at" if disowned else ""
    moved = tx.change(
        f"""
        UPDATE liveness SET {_JUDGED}
        WHERE node_id = :node_id AND health_version = :expected AND boot_id = :boot_id {unseen}
        """,
        # What is asked for is as it was before; a judgement sets none of it.
        {**VITALS.params(after), "expected": before.health_version},
    )
    if not moved:
        raise Conflict(f"cannot write the health of node {before.node_id}: it has moved on; read it again")
    rows = tx.execute("SELECT operation_id FROM nodes WHERE id = :id", {"id": before.node_id})
    concerned = tuple(OperationId(row[0]) for row in rows if row[0] is not None)
    events.append(tx, drafts.of_health(change), at=change.at, operations=concerned)
    return after


_NEWS_JUDGED = """
    UPDATE liveness SET news = 0
    WHERE node_id = :id AND said IS NOT DISTINCT FROM :said AND said_reason = :reason
      AND probed_at IS NOT DISTINCT FROM :probed_at AND boot_id = :boot_id
"""


def mark_news_judged(tx: Tx, judged: Sequence[Vitals]) -> None:
    """Mark what these nodes said as judged. What they said since then is news again."""
    tx.execute_all(
        *(
            (
                _NEWS_JUDGED,
                {
                    "id": each.node_id,
                    "boot_id": each.boot_id,
                    "probed_at": each.probed_at,
                    "said": None if each.said is None else each.said.value,
                    "reason": each.said_reason,
                },
            )
            for each in sorted(judged, key=lambda vitals: vitals.node_id)
        )
    )


def record_probe(tx: Tx, node_id: NodeId, *, passed: bool, now: float) -> None:
    if passed:
        sets = "probe_failures = 0, probe_passing_since = coalesce(probe_passing_since, :now)"
    else:
        # Those before a time in which no replica watched don't count any more.
        before = "CASE WHEN probed_at < (SELECT since FROM watch WHERE id = 1) THEN 0 ELSE probe_failures END"
        sets = f"probe_failures = {before} + 1, probe_passing_since = NULL"
    tx.change(
        f"""
        UPDATE liveness SET {sets}, probed_at = :now, news = 1
        WHERE node_id = :id AND (probed_at IS NULL OR probed_at < :now)
        """,
        {"id": node_id, "now": now},
    )


@cache
def offline_in(states: tuple[NodeState, ...]) -> str:
    return f"""
        SELECT {NODE.qualified("n")} FROM liveness AS l CROSS JOIN nodes AS n
        WHERE l.health = 'offline' AND l.health_since < :before AND n.id = l.node_id
          AND n.state IN ({", ".join(f"'{state.value}'" for state in states)})
        ORDER BY l.health_since, l.node_id LIMIT :limit
    """


def offline(tx: Tx, *, states: Sequence[NodeState], since_before: float, limit: int) -> Sequence[Node]:
    wanted = tuple(dict.fromkeys(states))
    if not wanted:
        return []
    return NODE.all(tx.execute(offline_in(wanted), {"before": since_before, "limit": limit}))


def stalled(tx: Tx, *, now: float, stall_after: float, limit: int) -> Sequence[Node]:
    params = {"now": now, "before": now - stall_after, "limit": limit}
    return NODE.all(tx.execute(STALLED, params))
