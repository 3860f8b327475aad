"""The overview port over an engine: counts along an index, lists from the end of one, pool samples."""

from collections.abc import Mapping, Sequence

from muster.domain import serialization
from muster.domain.health import Health
from muster.domain.ids import OperationId
from muster.domain.lifecycle import PRESENT, WITH_HEALTH, NodeState
from muster.domain.node import Node
from muster.domain.operation import ENDED, Operation, Status
from muster.domain.overview import Handover
from muster.domain.pool_history import PoolSample
from muster.ports.overview import Tick
from muster.stores.sql import events, failures, statements
from muster.stores.sql.engines import EngineVerbs, read
from muster.stores.sql.rows import NODE, OPERATION, from_json, known_operations, to_json
from muster.stores.sql.tx import Tx

_COUNTED = ", ".join(f"('{state.value}')" for state in PRESENT)
_WITH_HEALTH = ", ".join(f"'{state.value}'" for state in WITH_HEALTH)

CENSUS = f"""
    WITH states (state) AS (VALUES {_COUNTED}),
         names (name) AS (SELECT DISTINCT name FROM templates)
    SELECT names.name, states.state,
           (SELECT count(*) FROM nodes AS n WHERE n.template = names.name AND n.state = states.state)
    FROM names CROSS JOIN states ORDER BY names.name
"""
HEALTH = f"""
    WITH names (name) AS (SELECT DISTINCT name FROM templates)
    SELECT n.template, l.health, count(*)
    FROM names CROSS JOIN nodes AS n JOIN liveness AS l ON l.node_id = n.id
    WHERE n.template = names.name AND n.state IN ({_WITH_HEALTH})
    GROUP BY n.template, l.health ORDER BY n.template
"""
UNFINISHED = statements.merge_queries(
    [
        f"SELECT {OPERATION.select} FROM operations WHERE status = '{status.value}'"
        for status in Status
        if status not in ENDED
    ],
    "created_at, id",
)
TERMINATING = f"""
    SELECT {NODE.select} FROM nodes WHERE state = 'terminating' ORDER BY entered_at, id LIMIT :limit
"""
HANDOVERS = """
    SELECT id, template, created_at, committed_at, warm, request FROM operations
    WHERE kind = 'provision' AND committed_at >= :since ORDER BY committed_at DESC, id DESC LIMIT :limit
"""
_KEEP_SAMPLE = """
    INSERT INTO pool_samples (at, sample) VALUES (:at, :sample)
    ON CONFLICT (at) DO UPDATE SET sample = excluded.sample
"""
_SAMPLES = "SELECT sample FROM pool_samples WHERE at >= :since ORDER BY at LIMIT :limit"
_TICKS = "SELECT name, ticked_at, problem FROM duties ORDER BY name LIMIT 1000"


def _census(tx: Tx) -> Mapping[str, Mapping[NodeState, int]]:
    found: dict[str, dict[NodeState, int]] = {}
    for name, state, count in tx.execute(CENSUS):
        found.setdefault(name, dict.fromkeys(PRESENT, 0))[NodeState(state)] = count
    return found


def _health(tx: Tx) -> Mapping[str, Mapping[Health, int]]:
    found: dict[str, dict[Health, int]] = {}
    for name, health, count in tx.execute(HEALTH):
        found.setdefault(name, dict.fromkeys(Health, 0))[Health(health)] = count
    return found


def _unfinished(tx: Tx, *, limit: int) -> Sequence[Operation]:
    return known_operations(tx.execute(UNFINISHED, {"limit": limit}))


def _terminating(tx: Tx, *, limit: int) -> Sequence[Node]:
    return NODE.all(tx.execute(TERMINATING, {"limit": limit}))


def _ticks(tx: Tx) -> Sequence[Tick]:
    return [Tick(name=name, at=at, problem=problem) for name, at, problem in tx.execute(_TICKS)]


def _handovers(tx: Tx, *, since: float, limit: int) -> Sequence[Handover]:
    return [
        Handover(
            operation_id=OperationId(operation_id),
            template=template,
            at=committed_at,
            seconds=max(0.0, committed_at - created_at),
            nodes=from_json(request)["count"],
            warm=warm,
        )
        for operation_id, template, created_at, committed_at, warm, request in tx.execute(
            HANDOVERS, {"since": since, "limit": limit}
        )
    ]


def keep_sample(tx: Tx, sample: PoolSample, *, before: float) -> None:
    tx.change(_KEEP_SAMPLE, {"at": sample.at, "sample": to_json(serialization.to_plain(sample))})
    tx.change("DELETE FROM pool_samples WHERE at < :before", {"before": before})


def _pool_samples(tx: Tx, *, since: float, limit: int) -> Sequence[PoolSample]:
    found = tx.execute(_SAMPLES, {"since": since, "limit": limit})
    return [serialization.from_plain(PoolSample, from_json(sample)) for (sample,) in found]


class SqlOverview(EngineVerbs):
    """Implements muster.ports.overview.OverviewStore."""

    census = read(_census)
    health = read(_health)
    unfinished = read(_unfinished)
    terminating = read(_terminating)
    failures = read(failures.since)
    handovers = read(_handovers)
    changes = read(events.changes)
    acts = read(events.acts)
    pool_samples = read(_pool_samples)
    ticks = read(_ticks)
