"""Claim idle nodes for a demand, in one statement.

This module owns `matching.fits` in SQL; a property test compares the two. The statement reads the pool's
index from its best end. So it looks at about as many nodes as it takes, however large the pool is.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from muster.domain.ids import AssignmentId
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.template import Reuse
from muster.stores.claim_batcher import Ask, End
from muster.stores.records import lease_lost_error, of_claim
from muster.stores.sql import events, guards, statements
from muster.stores.sql.rows import NODE
from muster.stores.sql.tx import Tx, Value

_BEST_FIRST = "owned_by_other, entered_at DESC, id"

_SET = """
    state = 'claimed', version = nodes.version + 1, entered_at = :now, deadline_at = bindings.deadline_at,
    deadline_source = 'attach_timeout', operation_id = bindings.operation_id,
    assignment_id = bindings.assignment_id, run = bindings.run, owner = bindings.owner,
    attached_at = NULL, reason = NULL
"""
"""What `records.claimed` says, in SQL."""
_ANY_IDLE = "SELECT 1 FROM nodes WHERE template = :template AND state = 'idle' LIMIT 1"
"""Asked first where one transaction writes at a time. An empty pool is common, and this query is quicker
than the temporary tables of a claim.
"""
AT_ONCE = 64
"""Bindings per statement: joining them with nodes costs their product, so a large gang is taken in parts."""


def claim(tx: Tx, demand: Demand, ask: Ask) -> Sequence[Node]:
    guards.check_fence(tx, ask.fence)
    return _serve(tx, demand, [ask])[0]


def claim_together(tx: Tx, demand: Demand, asks: Sequence[Ask]) -> Sequence[End]:
    """Claim for several operations.

    An operation whose row another transaction holds is left out and asked by itself, so that no claim waits
    for another operation.
    """
    if len(asks) == 1:
        return [claim(tx, demand, asks[0])]
    fences = [ask.fence for ask in asks]
    if tx.hurried:
        guards.check_fences(tx, fences)
        return list(_serve(tx, demand, asks))
    epochs = guards.lock_fences(tx, fences)
    allowed = [ask for ask in asks if epochs.get(ask.fence.operation_id) == ask.fence.epoch]
    served = dict(zip(map(id, allowed), _serve(tx, demand, allowed), strict=True))
    return [
        served.get(id(ask))
        if epochs.get(ask.fence.operation_id, ask.fence.epoch) == ask.fence.epoch
        else lease_lost_error(ask.fence)
        for ask in asks
    ]


def _serve(tx: Tx, demand: Demand, asks: Sequence[Ask]) -> list[list[Node]]:
    """Return the nodes of each ask, in the order of the asks. Every ask came before the latest `now`."""
    if not asks:
        return []
    if tx.locks.alone and not tx.execute(_ANY_IDLE, {"template": demand.template}):
        return [[] for _ in asks]
    guards.check_not_paused(tx, demand.template)
    now = max(ask.now for ask in asks)
    params = wanted(demand, seen_since=max(ask.seen_since for ask in asks), now=now)
    places = [(binding, ask.deadline_at) for ask in asks for binding in ask.bindings]
    nodes: dict[AssignmentId | None, Node] = {}
    for start in range(0, len(places), AT_ONCE):
        part = places[start : start + AT_ONCE]
        taken = _take(tx, demand, part, params, lock=tx.locks.skip)
        if len(taken) < len(part) and not tx.locks.alone:
            # Others hold some that they may not take, or may give back: wait for those before giving up.
            taken += _take(tx, demand, part[len(taken) :], params, lock=tx.locks.hold)
        nodes.update((node.assignment_id, node) for node in taken)
        if len(taken) < len(part):
            break
    return [_logged(tx, ask, nodes, at=now) for ask in asks]


def _logged(tx: Tx, ask: Ask, nodes: Mapping[AssignmentId | None, Node], *, at: float) -> list[Node]:
    tx.by = ask.fence.operation_id
    found = [nodes[each.assignment_id] for each in ask.bindings if each.assignment_id in nodes]
    for node in found:
        _log(tx, node, at=at)
    return found


def _take(
    tx: Tx,
    demand: Demand,
    places: Sequence[tuple[Binding, float]],
    common: Mapping[str, Value],
    *,
    lock: str,
) -> list[Node]:
    params = dict(common)
    for index, (binding, deadline_at) in enumerate(places):
        params[f"operation{index}"] = binding.operation_id
        params[f"assignment{index}"] = binding.assignment_id
        params[f"run{index}"] = binding.run
        params[f"owner{index}"] = binding.owner
        params[f"deadline{index}"] = deadline_at
    sql = statement(len(demand.usage), demand.reuse, _patterns(demand), len(places), lock)
    return NODE.all(tx.execute(sql, params))


def count(tx: Tx, demand: Demand, *, seen_since: float, now: float) -> int:
    usages = statements.placeholders("usage", len(demand.usage))
    owners = {
        Reuse.NEVER: "AND n.last_owner IS NULL",
        Reuse.SAME_OWNER: "AND (n.last_owner IS NULL OR n.last_owner = :owner)",
        Reuse.ALWAYS: "",
    }[demand.reuse]
    sql = f"""
        SELECT count(*) FROM nodes AS n
        WHERE {_fits(_patterns(demand))} AND n.usage_class IN ({usages}) {owners}
    """
    counted: int = tx.execute(sql, wanted(demand, seen_since=seen_since, now=now))[0][0]
    return counted


@lru_cache(maxsize=256)
def statement(usages: int, reuse: Reuse, patterns: int, places: int, lock: str = "") -> str:
    """Return the claim's SQL, one shape per kind of demand.

    Values are bound, except for the number of nodes: a plan for any number would be a plan for very many.
    """
    branches = " UNION ALL ".join(
        f"SELECT * FROM ({branch}) AS b"
        for index in range(usages)
        for branch in _branches(index, reuse, patterns, places, lock)
    )
    values = ", ".join(
        f"({index + 1}, :operation{index}, :assignment{index}, :run{index}, :owner{index}, :deadline{index})"
        for index in range(places)
    )
    return f"""
        WITH bindings (place, operation_id, assignment_id, run, owner, deadline_at) AS (VALUES {values}),
        picked AS (
            SELECT id, row_number() OVER (ORDER BY {_BEST_FIRST}) AS place FROM ({branches}) AS candidates
            ORDER BY place LIMIT {places}
        )
        UPDATE nodes SET {_SET} FROM picked JOIN bindings ON bindings.place = picked.place
        WHERE nodes.id = picked.id AND nodes.state = 'idle'
        RETURNING {NODE.qualified("nodes")}
    """


def _branches(usage: int, reuse: Reuse, patterns: int, places: int, lock: str) -> list[str]:
    """Return queries that each read one index from its best end and stop after as many nodes as are
    wanted."""
    own = (0, "n.last_owner = :owner", "")
    # They all have no owner: to order by it says nothing, but that the index is in order.
    nobodys = (1, "n.last_owner IS NULL", "n.last_owner, ")
    others = nobodys if reuse is not Reuse.ALWAYS else (1, "n.last_owner IS DISTINCT FROM :owner", "")
    wanted = [others] if reuse is Reuse.NEVER else [own, others]
    return [
        f"""
            SELECT n.id AS id, {rank} AS owned_by_other, n.entered_at AS entered_at FROM nodes AS n
            WHERE {_fits(patterns)} AND n.usage_class = :usage{usage} AND {owners}
            ORDER BY {first}n.entered_at DESC, n.id LIMIT {places}{lock}
        """
        for rank, owners, first in wanted
    ]


def _fits(patterns: int) -> str:
    # When a node was seen is asked node by node: as EXISTS it is a join, and a planner that thinks the pool
    # small reads all of liveness for it.
    types = " OR ".join(f"lower(n.instance_type) LIKE :type{index} ESCAPE '!'" for index in range(patterns))
    return f"""
        n.state = 'idle' AND n.drain = 0 AND n.template = :template AND n.revision = :revision
        AND :revision >= coalesce((SELECT max(t.revision) FROM templates AS t WHERE t.name = :template), 0)
        AND n.resource_class = :resource_class AND (n.deadline_at IS NULL OR n.deadline_at > :now)
        {f"AND ({types})" if types else ""}
        AND (SELECT l.seen_at FROM liveness AS l WHERE l.node_id = n.id) >= :seen_since
    """


def wanted(demand: Demand, *, seen_since: float, now: float) -> dict[str, Value]:
    params: dict[str, Value] = {
        "template": demand.template,
        "revision": demand.revision,
        "resource_class": demand.resource_class,
        "owner": demand.owner,
        "seen_since": seen_since,
        "now": now,
    }
    for index, usage in enumerate(demand.usage):
        params[f"usage{index}"] = usage.value
    for index in range(_patterns(demand)):
        params[f"type{index}"] = _like(demand.instance_types[index])
    return params


def _patterns(demand: Demand) -> int:
    """Return how many patterns to ask for; none if one of them matches everything."""
    return 0 if "*" in demand.instance_types else len(demand.instance_types)


def _like(pattern: str) -> str:
    escaped = pattern.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return escaped.replace("*", "%")


def _log(tx: Tx, node: Node, *, at: float) -> None:
    operations = () if node.operation_id is None else (node.operation_id,)
    events.append(tx, of_claim(node), at=at, operations=operations, record=node)
