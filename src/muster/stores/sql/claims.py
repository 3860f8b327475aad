"""Claiming: idle nodes taken for a demand, in one statement.

Owns `matching.fits` in SQL (a property test holds the two together). The statement reads the pool's index
from its best end, so it looks at about as many nodes as it takes, however large the pool is.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from muster.domain.events import Draft, Entity
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.operation import Fence
from muster.domain.template import Reuse
from muster.stores.sql import events, guards, lists
from muster.stores.sql.rows import NODE
from muster.stores.sql.tx import Tx, Value

_BEST_FIRST = "owned_by_other, entered_at DESC, id"

_SET = """
    state = 'claimed', version = nodes.version + 1, entered_at = :now, deadline_at = :deadline_at,
    deadline_source = 'attach_timeout', operation_id = bindings.operation_id,
    assignment_id = bindings.assignment_id, run = bindings.run, owner = bindings.owner,
    attached_at = NULL, reason = NULL
"""
AT_ONCE = 64
"""Bindings per statement: joining them with nodes costs their product, so a large gang is taken in parts."""


def claim(
    tx: Tx,
    demand: Demand,
    bindings: Sequence[Binding],
    *,
    fence: Fence,
    seen_since: float,
    now: float,
    deadline_at: float,
) -> Sequence[Node]:
    guards.hold(tx, fence)
    taken: list[Node] = []
    params = wanted(demand, seen_since=seen_since, now=now)
    params["deadline_at"] = deadline_at
    for start in range(0, len(bindings), AT_ONCE):
        part = bindings[start : start + AT_ONCE]
        nodes = _take(tx, demand, part, params, lock=tx.locks.skip)
        if len(nodes) < len(part) and not tx.locks.alone:
            # Others hold some that they may not take, or may give back: wait for those before giving up.
            nodes += _take(tx, demand, part[len(nodes) :], params, lock=tx.locks.hold)
        taken.extend(nodes)
        if len(nodes) < len(part):
            break
    for node in taken:
        _log(tx, node, at=now)
    return taken


def _take(
    tx: Tx, demand: Demand, bindings: Sequence[Binding], common: Mapping[str, Value], *, lock: str
) -> list[Node]:
    params = dict(common)
    for index, binding in enumerate(bindings):
        params[f"operation{index}"] = binding.operation_id
        params[f"assignment{index}"] = binding.assignment_id
        params[f"run{index}"] = binding.run
        params[f"owner{index}"] = binding.owner
    sql = statement(len(demand.usage), demand.reuse, _patterns(demand), len(bindings), lock)
    nodes = [NODE.decode(row) for row in tx.execute(sql, params)]
    if len(nodes) > 1:
        # RETURNING promises no order; the log and the caller get that of the bindings.
        places = {binding.assignment_id: place for place, binding in enumerate(bindings)}
        nodes.sort(key=lambda node: (places[node.assignment_id], node.id))
    return nodes


def count(tx: Tx, demand: Demand, *, seen_since: float, now: float) -> int:
    usages = lists.marks("usage", len(demand.usage))
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
    """One shape per kind of demand; values are always bound, but for how many: a plan made for any number
    would be one for very many."""
    branches = " UNION ALL ".join(
        f"SELECT * FROM ({branch}) AS b"
        for index in range(usages)
        for branch in _branches(index, reuse, patterns, places, lock)
    )
    values = ", ".join(
        f"({index + 1}, :operation{index}, :assignment{index}, :run{index}, :owner{index})"
        for index in range(places)
    )
    return f"""
        WITH bindings (place, operation_id, assignment_id, run, owner) AS (VALUES {values}),
        picked AS (
            SELECT id, row_number() OVER (ORDER BY {_BEST_FIRST}) AS place FROM ({branches}) AS candidates
            ORDER BY place LIMIT {places}
        )
        UPDATE nodes SET {_SET} FROM picked JOIN bindings ON bindings.place = picked.place
        WHERE nodes.id = picked.id AND nodes.state = 'idle'
        RETURNING {NODE.qualified("nodes")}
    """


def _branches(usage: int, reuse: Reuse, patterns: int, places: int, lock: str) -> list[str]:
    """Each reads one index from its best end and stops after as many nodes as are wanted."""
    own = (0, "n.last_owner = :owner")
    others = (
        1,
        "n.last_owner IS NULL" if reuse is not Reuse.ALWAYS else "n.last_owner IS DISTINCT FROM :owner",
    )
    wanted = [others] if reuse is Reuse.NEVER else [own, others]
    return [
        f"""
            SELECT n.id AS id, {rank} AS owned_by_other, n.entered_at AS entered_at FROM nodes AS n
            WHERE {_fits(patterns)} AND n.usage_class = :usage{usage} AND {owners}
            ORDER BY n.entered_at DESC, n.id LIMIT {places}{lock}
        """
        for rank, owners in wanted
    ]


def _fits(patterns: int) -> str:
    types = " OR ".join(f"lower(n.instance_type) LIKE :type{index} ESCAPE '!'" for index in range(patterns))
    return f"""
        n.state = 'idle' AND n.drain = 0 AND n.template = :template AND n.revision = :revision
        AND :revision >= coalesce((SELECT max(t.revision) FROM templates AS t WHERE t.name = :template), 0)
        AND n.resource_class = :resource_class AND (n.deadline_at IS NULL OR n.deadline_at > :now)
        {f"AND ({types})" if types else ""}
        AND EXISTS (SELECT 1 FROM liveness AS l WHERE l.node_id = n.id AND l.seen_at >= :seen_since)
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
    """How many patterns to ask for; none if one of them matches everything."""
    return 0 if "*" in demand.instance_types else len(demand.instance_types)


def _like(pattern: str) -> str:
    escaped = pattern.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return escaped.replace("*", "%")


def _log(tx: Tx, node: Node, *, at: float) -> None:
    """The event names what the statement sets."""
    draft = Draft(
        entity=Entity.NODE,
        entity_id=node.id,
        version=node.version,
        name="claim",
        changes={
            "state": "claimed",
            "version": node.version,
            "entered_at": node.entered_at,
            "deadline_at": node.deadline_at,
            "deadline_source": node.deadline_source,
            "operation_id": node.operation_id,
            "assignment_id": node.assignment_id,
            "run": node.run,
            "owner": node.owner,
            "attached_at": None,
            "reason": None,
        },
    )
    events.append(tx, draft, at=at, operations=() if node.operation_id is None else (node.operation_id,))
