"""When nodes were last seen: a row per node, apart from its record.

Owns the liveness table. A time never moves back, and nothing here touches a node's version or its events. A
booted node has a row even before it beats, so that the silent ones are found without looking at all nodes.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.ports.store import Beat
from muster.stores.sql import lists
from muster.stores.sql.rows import NODE
from muster.stores.sql.tx import Tx, Value

AT_ONCE = 200
"""Beats per statement. Between two statements the store's thread and the loop fight for the interpreter."""


@cache
def _beat(count: int) -> str:
    given = ", ".join(f"(:node{number}, :seen{number})" for number in range(count))
    # A beat that arrives after its node is gone leaves no row behind.
    return f"""
        WITH beats (node_id, seen_at) AS (VALUES {given})
        INSERT INTO liveness (node_id, seen_at)
        SELECT n.id, b.seen_at FROM beats AS b CROSS JOIN nodes AS n
        WHERE n.id = b.node_id AND n.state <> 'terminated'
        ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at
        WHERE liveness.seen_at IS NULL OR excluded.seen_at > liveness.seen_at
    """


def expect(tx: Tx, node_id: NodeId) -> None:
    """The node is up: from now on its silence counts."""
    tx.change(
        "INSERT INTO liveness (node_id, seen_at) VALUES (:id, NULL) ON CONFLICT (node_id) DO NOTHING",
        {"id": node_id},
    )


def forget(tx: Tx, node_id: NodeId) -> None:
    tx.change("DELETE FROM liveness WHERE node_id = :id", {"id": node_id})


def record(tx: Tx, beats: Sequence[Beat]) -> None:
    for start in range(0, len(beats), AT_ONCE):
        some = beats[start : start + AT_ONCE]
        params: dict[str, Value] = {}
        for number, beat in enumerate(some):
            params[f"node{number}"] = beat.node_id
            params[f"seen{number}"] = beat.seen_at
        tx.change(_beat(len(some)), params)


def last_seen(tx: Tx, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
    seen: dict[NodeId, float] = {}
    for chunk in lists.in_chunks(tuple(dict.fromkeys(node_ids))):
        sql = f"""
            SELECT node_id, seen_at FROM liveness
            WHERE node_id IN ({lists.marks("id", len(chunk))}) AND seen_at IS NOT NULL ORDER BY node_id
        """
        seen.update((NodeId(node_id), at) for node_id, at in tx.execute(sql, lists.bound("id", chunk)))
    return seen


@cache
def silent(states: int) -> str:
    kind = f"n.state IN ({lists.marks('state', states)}) AND n.booted_at IS NOT NULL"
    columns = NODE.qualified("n")
    # One branch reads the oldest beats in their order, the other the few nodes that never beat. The plain
    # CROSS JOIN keeps liveness on the outside: there are few silent nodes and many nodes.
    return f"""
        SELECT {NODE.select} FROM (
            SELECT * FROM (
                SELECT {columns}, l.seen_at AS since FROM liveness AS l CROSS JOIN nodes AS n
                WHERE n.id = l.node_id AND l.seen_at < :before AND {kind}
                ORDER BY l.seen_at, l.node_id LIMIT :limit
            ) AS beaten
            UNION ALL
            SELECT * FROM (
                SELECT {columns}, n.entered_at AS since FROM liveness AS l CROSS JOIN nodes AS n
                WHERE n.id = l.node_id AND l.seen_at IS NULL AND n.entered_at < :before AND {kind}
                ORDER BY n.entered_at, n.id LIMIT :limit
            ) AS unbeaten
        ) AS silent ORDER BY since, id LIMIT :limit
    """


def unseen(tx: Tx, *, states: Sequence[NodeState], seen_before: float, limit: int) -> Sequence[Node]:
    wanted = tuple(dict.fromkeys(state.value for state in states))
    if not wanted:
        return []
    params = {"before": seen_before, "limit": limit, **lists.bound("state", wanted)}
    return [NODE.decode(row) for row in tx.execute(silent(len(wanted)), params)]
