"""Last contact of nodes: a row per node, apart from its record.

This module owns what nodes themselves write to the liveness table. A time moves back only if it was a wrong
clock's. Nothing here touches a node's version or its events. A node has a row from its join on, a booted one
even before it beats. So silent nodes are found without a look at all nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from muster.domain.deadlines import CLOCK_ERROR
from muster.domain.errors import Conflict
from muster.domain.ids import NodeId
from muster.domain.node import Node
from muster.ports.store import NO_NODES, Alive, Beat
from muster.stores.sql import statements
from muster.stores.sql.rows import to_json
from muster.stores.sql.tx import Params, Row, Tx, Value

AT_ONCE = 200
"""Beats per statement. Between two statements the store's thread and the loop fight for the interpreter."""


_ADVANCED_AT = "SELECT advanced_at FROM liveness WHERE node_id = :id"
_SEEN_AT = "SELECT seen_at FROM liveness WHERE node_id = :id"
_ALIVE = "n.id = b.node_id AND n.state <> 'terminated'"
"""A beat that arrives after its node is gone leaves no row behind."""


def _moves(seen_at: str, compared: str) -> str:
    """Return the condition under which a beat is written. One that is much older shows a wrong clock."""
    older = f"{seen_at} < liveness.seen_at - {CLOCK_ERROR}"
    return f"liveness.seen_at IS NULL OR {seen_at} {compared} liveness.seen_at OR {older}"


@cache
def _beat(count: int, lock: str) -> str:
    return f"""
        WITH beats (node_id, seen_at) AS (VALUES {_given(count)})
        INSERT INTO liveness (node_id, seen_at)
        SELECT n.id, b.seen_at FROM beats AS b CROSS JOIN nodes AS n WHERE {_ALIVE}{lock}
        ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at
        WHERE {_moves("excluded.seen_at", ">")}
    """


_BEAT_AGAIN_ALONE = f"""
    UPDATE liveness SET seen_at = CASE WHEN {_moves(":at", ">")} THEN :at ELSE seen_at END
    WHERE node_id IN (SELECT value FROM json_each(:ids))
"""
_BEATS_ALONE = f"""
    INSERT INTO liveness (node_id, seen_at)
    SELECT n.id, :at FROM json_each(:ids) AS b CROSS JOIN nodes AS n
    WHERE {_ALIVE.replace("b.node_id", "b.value")}
    ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at
    WHERE {_moves("excluded.seen_at", ">")}
"""


@cache
def _beat_again(count: int) -> str:
    return f"""
        WITH beats (node_id, seen_at) AS (VALUES {_given(count)})
        UPDATE liveness SET seen_at = b.seen_at FROM beats AS b
        WHERE liveness.node_id = b.node_id AND ({_moves("b.seen_at", ">")})
        RETURNING liveness.node_id
    """


def _given(count: int) -> str:
    return ", ".join(f"(:node{number}, :seen{number})" for number in range(count))


_SAID = "(excluded.said IS NOT NULL AND (excluded.said <> 'starting' OR liveness.said IS NULL))"
"""Whether a beat has a word that counts: of `starting` only its liveness does, once the node said more."""


@cache
def _telling_beat(count: int, lock: str) -> str:
    """Return the statement for a beat that says more than that the node lives.

    What is said at the time of the last beat counts too: times come in steps, and a last message is sent
    once.
    """
    given = ", ".join(
        f"(:node{number}, :seen{number}, CAST(:activity{number} AS BIGINT), :said{number}, :reason{number})"
        for number in range(count)
    )
    return f"""
        WITH beats (node_id, seen_at, activity, said, said_reason) AS (VALUES {given})
        INSERT INTO liveness (node_id, seen_at, activity, said, said_reason, news)
        SELECT n.id, b.seen_at, coalesce(b.activity, 0), b.said, b.said_reason, 1
        FROM beats AS b CROSS JOIN nodes AS n WHERE {_ALIVE}{lock}
        ON CONFLICT (node_id) DO UPDATE SET
            seen_at = excluded.seen_at,
            advanced_at = CASE WHEN excluded.activity > liveness.activity AND liveness.advanced_at IS NOT NULL
                THEN excluded.seen_at ELSE liveness.advanced_at END,
            activity = CASE WHEN excluded.activity > liveness.activity
                THEN excluded.activity ELSE liveness.activity END,
            news = CASE WHEN {_SAID} AND (liveness.said IS NULL
                OR excluded.said <> liveness.said OR excluded.said_reason <> liveness.said_reason)
                THEN 1 ELSE liveness.news END,
            said_reason = CASE WHEN {_SAID} THEN excluded.said_reason ELSE liveness.said_reason END,
            said = CASE WHEN {_SAID} THEN excluded.said ELSE liveness.said END
        WHERE {_moves("excluded.seen_at", ">=")}
    """


def joined(tx: Tx, node: Node, *, stall_after: float | None) -> None:
    """Reset what was known of an earlier boot."""
    tx.change(
        """
        INSERT INTO liveness (node_id, boot_id, joined_at, advanced_at, booting, stall_after, health_since)
        VALUES (:id, :boot_id, :at, :at, :booting, :stall_after, :at)
        ON CONFLICT (node_id) DO UPDATE SET
            boot_id = excluded.boot_id, joined_at = excluded.joined_at, advanced_at = excluded.advanced_at,
            booting = excluded.booting, stall_after = excluded.stall_after, said = NULL, said_reason = '',
            activity = 0, probe_failures = 0, probe_passing_since = NULL, probed_at = NULL, news = 1
        """,
        {
            "id": node.id,
            "boot_id": node.boot_id or "",
            "at": node.joined_at,
            "booting": int(not node.up),
            "stall_after": stall_after,
        },
    )


def forget_probes(tx: Tx, node_id: NodeId) -> None:
    """Delete what probes found."""
    tx.change(
        """
        UPDATE liveness SET probe_failures = 0, probe_passing_since = NULL, probed_at = NULL
        WHERE node_id = :id
        """,
        {"id": node_id},
    )


def set_stale_after(tx: Tx, node_id: NodeId, *, stale_after: float) -> None:
    """Store how often the node beats, as it said at its join."""
    tx.change(
        "UPDATE liveness SET stale_after = :stale_after WHERE node_id = :id",
        {"id": node_id, "stale_after": stale_after},
    )


def advanced(tx: Tx, node_id: NodeId, *, at: float) -> None:
    tx.change(
        """
        UPDATE liveness SET advanced_at = :at
        WHERE node_id = :id AND (advanced_at IS NULL OR advanced_at < :at)
        """,
        {"id": node_id, "at": at},
    )


def booted(tx: Tx, node_id: NodeId) -> None:
    """Mark the node as up and ready; from now on its silence counts."""
    tx.change(
        """
        INSERT INTO liveness (node_id, said, news) VALUES (:id, 'ready', 1)
        ON CONFLICT (node_id) DO UPDATE SET said = 'ready', said_reason = '', news = 1, booting = 0
        """,
        {"id": node_id},
    )


def stopped_booting(tx: Tx, node_id: NodeId) -> None:
    tx.change("UPDATE liveness SET booting = 0 WHERE node_id = :id", {"id": node_id})


def check_still(tx: Tx, node_id: NodeId, still_since: float | None) -> None:
    """Check that a boot still stands still, for the write that fails it."""
    if still_since is None:
        return
    refusal = f"cannot fail node {node_id}: its boot has advanced since; look again"
    tx.check(_ADVANCED_AT + tx.locks.hold, {"id": node_id}, partial(_judge_time, still_since, refusal))


def check_silent(tx: Tx, node_id: NodeId, silent_since: float | None) -> None:
    """Check that a node is still silent, for the write that gives it up."""
    if silent_since is None:
        return
    refusal = f"cannot give up node {node_id}: it was seen since; look again"
    tx.check(_SEEN_AT + tx.locks.hold, {"id": node_id}, partial(_judge_time, silent_since, refusal))


def _judge_time(latest: float, refusal: str, rows: Sequence[Row]) -> None:
    if rows and rows[0][0] is not None and rows[0][0] > latest:
        raise Conflict(refusal)


def forget(tx: Tx, node_id: NodeId) -> None:
    tx.change("DELETE FROM liveness WHERE node_id = :id", {"id": node_id})


def record(tx: Tx, beats: Sequence[Beat], alive: Alive = NO_NODES) -> None:
    telling = [beat for beat in beats if beat.activity is not None or beat.said is not None]
    plain = [beat for beat in beats if beat.activity is None and beat.said is None]
    # First what nodes said: after a later beat of the same node it would be old.
    for some in _parts(telling):
        params = _numbered(some)
        for number, beat in enumerate(some):
            params[f"activity{number}"] = beat.activity
            params[f"said{number}"] = None if beat.said is None else beat.said.value
            params[f"reason{number}"] = beat.reason
        tx.change(_telling_beat(len(some), tx.locks.share and f"{tx.locks.share} OF n"), params)
    if tx.locks.alone:
        _record_alone(tx, plain, alive)
        return
    plain += [Beat(node_id, at) for at, node_ids in alive.items() for node_id in node_ids]
    for some in _parts(plain):
        _record_plain(tx, some)


def _record_plain(tx: Tx, beats: Sequence[Beat]) -> None:
    # Nearly all have a row. Only the others have to hold their node, so that it isn't buried meanwhile.
    known = {row[0] for row in tx.execute(_beat_again(len(beats)), _numbered(beats))}
    beats = [beat for beat in beats if beat.node_id not in known]
    if beats:
        tx.change(_beat(len(beats), f"{tx.locks.share} OF n"), _numbered(beats))


def _record_alone(tx: Tx, beats: Sequence[Beat], alive: Alive) -> None:
    """Record beats on SQLite, which binds one list faster than many values. Beats of a flush share few
    times."""
    together: dict[float, dict[NodeId, None]] = {}
    for beat in beats:
        together.setdefault(beat.seen_at, {})[beat.node_id] = None
    for at, once in (*together.items(), *alive.items()):
        params: dict[str, Value] = {"at": at, "ids": to_json(list(once))}
        # Nearly all have a row, and an update costs less than an insert that finds one.
        if tx.change(_BEAT_AGAIN_ALONE, params) < len(once):
            tx.change(_BEATS_ALONE, params)


def _parts(beats: Sequence[Beat]) -> list[list[Beat]]:
    """Split beats into bounded parts with each node once, in an order that all writers share."""
    parts: list[list[Beat]] = []
    rest = sorted(beats, key=lambda beat: (beat.node_id, beat.seen_at))
    while rest:
        once = {beat.node_id: beat for beat in reversed(rest)}
        now = sorted(once.values(), key=lambda beat: beat.node_id)
        parts += [now[start : start + AT_ONCE] for start in range(0, len(now), AT_ONCE)]
        taken = {id(beat) for beat in now}
        rest = [beat for beat in rest if id(beat) not in taken]
    return parts


def _numbered(beats: Sequence[Beat]) -> dict[str, Value]:
    params: dict[str, Value] = {}
    for number, beat in enumerate(beats):
        params[f"node{number}"] = beat.node_id
        params[f"seen{number}"] = beat.seen_at
    return params


def last_seen(tx: Tx, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
    return {
        NodeId(node_id): at
        for chunk in statements.in_chunks(tuple(dict.fromkeys(node_ids)))
        for node_id, at in tx.execute(*_last_seen(chunk))
    }


def check_seen(tx: Tx, node_ids: Sequence[NodeId], judge: Callable[[NodeId, float], None]) -> None:
    """Let `judge` look at when each node was last seen; 0.0 if never."""

    def judge_all(chunk: Sequence[NodeId], rows: Sequence[Row]) -> None:
        seen = {NodeId(node_id): at for node_id, at in rows}
        for node_id in chunk:
            judge(node_id, seen.get(node_id, 0.0))

    for chunk in statements.in_chunks(tuple(dict.fromkeys(node_ids))):
        tx.check(*_last_seen(chunk), partial(judge_all, chunk))


def _last_seen(chunk: Sequence[NodeId]) -> tuple[str, Params]:
    sql = f"""
        SELECT node_id, seen_at FROM liveness
        WHERE node_id IN ({statements.placeholders("id", len(chunk))}) AND seen_at IS NOT NULL
        ORDER BY node_id
    """
    return sql, statements.bind("id", chunk)
