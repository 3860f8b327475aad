"""Delete old records and events, a bounded batch at a time.

This module owns the order: nodes before their launches before their operations, so that nothing that stays
names something that went. What an unfinished operation holds stays whole. A transaction is bounded in bytes
too, so that other writers never wait for gigabytes to go.
"""

from functools import cache

from muster.domain.cluster_decisions import LEARNED_FROM
from muster.domain.ids import OperationId
from muster.domain.requests import ReleaseRequest
from muster.domain.run_decisions import provision_key, release_key
from muster.ports.store import Pruned
from muster.stores.sql import statements
from muster.stores.sql.rows import OPERATION
from muster.stores.sql.tx import Tx, Value

BITE = 8 * 1024 * 1024
"""Bytes of output that go in one transaction; one command may have twice as many."""
RECORD = 1024
"""Bytes that a command counts for, beside its output."""
BUNDLES = 32
"""Bundles that go in one transaction: they have a few hundred kilobytes each."""
WEIGHED = 50
"""Operations whose commands are looked at together."""

OLD_NODES = """
    SELECT n.id FROM nodes AS n
    WHERE n.state = 'terminated' AND n.entered_at < :before
      AND NOT EXISTS (SELECT 1 FROM operations AS o WHERE o.id = n.operation_id AND o.ended_at IS NULL)
    ORDER BY n.entered_at, n.id LIMIT :limit
"""
# What the present revision has taught stays, however old: there may be no newer boot to learn from.
_OLD_BOOTS = """
    SELECT b.node_id FROM boots AS b
    WHERE b.booted_at < :before
      AND b.revision < (SELECT max(t.revision) FROM templates AS t WHERE t.name = b.template)
    ORDER BY b.booted_at, b.node_id LIMIT :limit
"""
_OLD_FAILURES = "SELECT id FROM failures WHERE at < :before ORDER BY at, id LIMIT :limit"
_LAUNCHES = """
    SELECT l.id FROM launches AS l
    WHERE l.closed_at IS NOT NULL AND l.closed_at < :before
      AND NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.launch_id = l.id)
      AND NOT EXISTS (SELECT 1 FROM operations AS o WHERE o.id = l.operation_id AND o.ended_at IS NULL)
    ORDER BY l.closed_at, l.id LIMIT :limit
"""
_OPERATIONS = """
    SELECT o.id, o.idempotency_key FROM operations AS o
    WHERE o.ended_at IS NOT NULL AND o.ended_at < :before
      AND NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.operation_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM launches AS l WHERE l.operation_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM pools AS p WHERE p.refill = o.id)
      AND NOT EXISTS (SELECT 1 FROM clusters AS c WHERE c.operation_id = o.id)
    ORDER BY o.ended_at, o.id LIMIT :limit
"""
# The creates that the next one's expected end is learnt from stay, however old.
_CLUSTERS = f"""
    SELECT c.id FROM clusters AS c
    WHERE c.state = 'deleted' AND c.stage_at < :before
      AND (c.ready_at IS NULL OR {LEARNED_FROM} <= (
          SELECT count(*) FROM clusters AS newer
          WHERE newer.template = c.template AND newer.ready_at > c.ready_at
      ))
    ORDER BY c.stage_at, c.id LIMIT :limit
"""
_JOBS = "SELECT id FROM jobs WHERE updated_at < :before ORDER BY updated_at, id LIMIT :limit"
_JOB_SOURCES = "DELETE FROM job_sources WHERE at < :before"
_OPEN_RELEASES = f"""
    SELECT {OPERATION.select} FROM operations
    WHERE kind = 'release' AND ended_at IS NULL ORDER BY created_at, id LIMIT 10000
"""
_OPEN_RUNS = """
    SELECT id FROM operations WHERE kind = 'run' AND ended_at IS NULL ORDER BY created_at, id LIMIT 10000
"""
_OLDEST_EVENTS = "SELECT seq, at FROM events ORDER BY seq LIMIT :limit"


def prune(tx: Tx, *, before: float, limit: int) -> Pruned:
    """Delete at most `limit` of each."""
    bounds: dict[str, Value] = {"before": before, "limit": limit}
    old_nodes = [row[0] for row in tx.execute(OLD_NODES, bounds)]
    nodes = _light(tx, old_nodes)
    _delete(tx, "liveness", "node_id", nodes)
    _delete(tx, "credentials", "node_id", nodes)
    _delete(tx, "boot_marks", "node_id", nodes)
    _delete(tx, "bundles", "node_id", nodes)
    _delete(tx, "nodes", "id", nodes)
    _delete(tx, "failures", "id", [row[0] for row in tx.execute(_OLD_FAILURES, bounds)])
    _delete(tx, "boots", "node_id", [row[0] for row in tx.execute(_OLD_BOOTS, bounds)])
    launches = [row[0] for row in tx.execute(_LAUNCHES, bounds)]
    _delete(tx, "launches", "id", launches)
    clusters = [row[0] for row in tx.execute(_CLUSTERS, bounds)]
    _delete(tx, "cluster_tokens", "cluster_id", clusters)
    _delete(tx, "clusters", "id", clusters)
    _delete(tx, "jobs", "id", [row[0] for row in tx.execute(_JOBS, bounds)])
    tx.change(_JOB_SOURCES, {"before": before})
    meant = _operations_being_released(tx)
    kept = _keys_of_open_runs(tx)
    found = tx.execute(_OPERATIONS, bounds)
    ended = [row[0] for row in found if row[0] not in meant and row[1] not in kept]
    operations = _without_commands(tx, ended)
    _delete(tx, "operations", "id", operations)
    events = _prune_events(tx, before=before, limit=limit)
    return Pruned(
        nodes=len(nodes),
        launches=len(launches),
        operations=len(operations),
        events=events,
        more=max(len(old_nodes), len(launches), len(ended), events) >= limit
        or len(nodes) < len(old_nodes)
        or len(operations) < len(ended),
    )


def _light(tx: Tx, nodes: list[str]) -> list[str]:
    """Return as many from the front as have few enough bundles between them."""
    bundled: dict[str, bool] = {}
    for chunk in statements.in_chunks(nodes):
        sql = f"SELECT node_id FROM bundles WHERE node_id IN ({statements.placeholders('id', len(chunk))})"
        bundled.update((row[0], True) for row in tx.execute(sql, statements.bind("id", chunk)))
    heavy = [place for place, node_id in enumerate(nodes) if node_id in bundled]
    return nodes[: heavy[BUNDLES]] if len(heavy) > BUNDLES else nodes


def _without_commands(tx: Tx, operations: list[str]) -> list[str]:
    """Delete commands and their output with their provision, a part at a time; return the operations that
    have none left."""
    bare: list[str] = []
    room = BITE
    for chunk in statements.in_chunks(operations, WEIGHED):
        found = tx.execute(weighed(len(chunk)), statements.bind("id", chunk))
        doomed: list[str] = []
        for command_id, weight in found:
            if weight > room and room < BITE:  # the first one goes however much it is
                break
            doomed.append(command_id)
            room -= weight
        _delete(tx, "command_output", "command_id", doomed)
        _delete(tx, "commands", "id", doomed)
        if len(doomed) < len(found):
            left = {row[0]: True for row in tx.execute(_busy(len(chunk)), statements.bind("id", chunk))}
            return bare + [each for each in chunk if each not in left]
        bare += chunk
    return bare


@cache
def weighed(operations: int) -> str:
    """Return their commands, each with the bytes of its output and something for its record, up to one
    part."""
    return f"""
        SELECT c.id, {RECORD} + (
            SELECT coalesce(sum(length(p.data)), 0) FROM command_output AS p WHERE p.command_id = c.id
        ) AS weight
        FROM commands AS c WHERE c.operation_id IN ({statements.placeholders("id", operations)})
        ORDER BY c.operation_id, c.created_at, c.id LIMIT {2 * BITE // RECORD}
    """


@cache
def _busy(operations: int) -> str:
    ids = statements.placeholders("id", operations)
    return f"SELECT operation_id FROM commands WHERE operation_id IN ({ids})"


def _operations_being_released(tx: Tx) -> frozenset[str]:
    releases = [OPERATION.decode(row).request for row in tx.execute(_OPEN_RELEASES)]
    return frozenset(each.operation_id for each in releases if isinstance(each, ReleaseRequest))


def _keys_of_open_runs(tx: Tx) -> frozenset[str]:
    """Return the keys by which unfinished runs find their provision and release; without them a run would
    begin again."""
    runs = [OperationId(row[0]) for row in tx.execute(_OPEN_RUNS)]
    return frozenset(key(run) for run in runs for key in (provision_key, release_key))


def _prune_events(tx: Tx, *, before: float, limit: int) -> int:
    """Delete the oldest end of the log, up to the first event that is young enough: never a hole in the
    middle."""
    last, count = 0, 0
    for seq, at in tx.execute(_OLDEST_EVENTS, {"limit": limit}):
        if at >= before:
            break
        last, count = seq, count + 1
    if count:
        tx.change("DELETE FROM events WHERE seq <= :last", {"last": last})
    return count


def _delete(tx: Tx, table: str, column: str, ids: list[str]) -> None:
    for chunk in statements.in_chunks(ids):
        marks = statements.placeholders("id", len(chunk))
        tx.change(f"DELETE FROM {table} WHERE {column} IN ({marks})", statements.bind("id", chunk))
