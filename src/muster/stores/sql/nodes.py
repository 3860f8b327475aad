"""Node records: reading them, and the guarded writes.

Owns every statement that inserts or updates a node except the claim. A node's room under the caps is taken
where it is inserted and given back where it becomes terminated, in the same transaction.
"""

from collections.abc import Sequence
from functools import cache

from muster.domain import events as drafts
from muster.domain import node as lifecycle
from muster.domain.errors import Conflict, IllegalTransition
from muster.domain.failures import of_node as of_failure
from muster.domain.ids import NodeId
from muster.domain.lifecycle import LIVE, Fact, NodeState, Verb
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Fence
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.records import operations_of
from muster.stores.sql import boots, counters, events, failures, guards, liveness, statements, templates
from muster.stores.sql.rows import NODE
from muster.stores.sql.tx import Tx

_BY_MACHINE = f"""
    SELECT {NODE.select} FROM nodes WHERE provider = :provider AND machine_id = :machine_id
    ORDER BY created_at DESC, CASE WHEN state = 'terminated' THEN 1 ELSE 0 END, id DESC LIMIT 1
"""
DUE = f"""
    SELECT {NODE.select} FROM nodes WHERE deadline_at IS NOT NULL AND deadline_at <= :now
    ORDER BY deadline_at, id LIMIT :limit
"""
_LIVE = ", ".join(f"'{state.value}'" for state in LIVE)
_INSERT_IF_NEW = f"{NODE.insert} ON CONFLICT (provider, machine_id) WHERE state <> 'terminated' DO NOTHING"


def get(tx: Tx, node_id: NodeId) -> Node:
    return NODE.get(tx, node_id)


def by_machine(tx: Tx, provider: str, machine_id: str) -> Node | None:
    return NODE.first(tx.execute(_BY_MACHINE, {"provider": provider, "machine_id": machine_id}))


def recorded(tx: Tx, provider: str, machine_ids: Sequence[str]) -> Sequence[str]:
    known: dict[str, None] = {}
    for chunk in statements.in_chunks(tuple(dict.fromkeys(machine_ids))):
        sql = f"""
            SELECT machine_id FROM nodes WHERE provider = :provider AND state <> 'terminated'
            AND machine_id IN ({statements.placeholders("id", len(chunk))}) ORDER BY machine_id
        """
        rows = tx.execute(sql, {"provider": provider, **statements.bind("id", chunk)})
        known.update((row[0], None) for row in rows)
    return [machine_id for machine_id in dict.fromkeys(machine_ids) if machine_id in known]


@cache
def listing(states: tuple[NodeState, ...], by_template: bool) -> str:
    """Return the statement for a page of nodes.

    States are part of the text. SQLite would prepare a statement anew for each value of a parameter that it
    compares with a partial index's condition.
    """
    template = "template = :template AND " if by_template else ""
    return statements.merge_queries(
        [
            f"SELECT {NODE.select} FROM nodes WHERE {template}state = '{state.value}' AND id > :after"
            for state in states
        ],
        "id",
    )


def page(
    tx: Tx, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
) -> Page[Node]:
    wanted = tuple(dict.fromkeys(states))
    start = "" if after is None else cursors.decode("nodes", after, str)[0]
    if not wanted:
        return Page(items=(), next=None)
    params = {"template": template, "after": start, "limit": limit + 1}
    rows = tx.execute(listing(wanted, template is not None), params)
    return cursors.page(NODE.all(rows), limit, "nodes", place=lambda node: (node.id,))


def at_address(tx: Tx, template: str, address: str) -> Sequence[Node]:
    sql = f"""
        SELECT {NODE.select} FROM nodes
        WHERE template = :template AND address = :address
        AND state IN ({_LIVE})
        ORDER BY id LIMIT 1000{tx.locks.hold}
    """
    return NODE.all(tx.execute(sql, {"template": template, "address": address}))


def due(tx: Tx, *, now: float, limit: int) -> Sequence[Node]:
    return NODE.all(tx.execute(DUE, {"now": now, "limit": limit}))


def count(tx: Tx, *, state: NodeState, template: str | None) -> int:
    by_template = "" if template is None else " AND template = :template"
    sql = f"SELECT count(*) FROM nodes WHERE state = '{state.value}'{by_template}"
    counted: int = tx.execute(sql, {"template": template})[0][0]
    return counted


def apply(tx: Tx, change: NodeChange, *, fence: Fence | None = None) -> Node:
    return apply_all(tx, (change,), fence=fence)[0]


def apply_all(tx: Tx, changes: Sequence[NodeChange], *, fence: Fence | None = None) -> Sequence[Node]:
    guards.check_fence(tx, fence)
    return [_apply(tx, change) for change in changes]


def _apply(tx: Tx, change: NodeChange) -> Node:
    before, after = change.before, change.after
    if before is None:
        raise IllegalTransition(f"cannot adopt node {after.id} by itself: settle its launch or adopt a stray")
    guards.check_operation(tx, change.guard)
    liveness.check_still(tx, before.id, change.still_since)
    liveness.check_silent(tx, before.id, change.silent_since)
    guards.update(tx, NODE, before, after)
    _note_boot(tx, change, before)
    if change.name is Verb.CONFIRM_GONE:
        counters.add(tx, after.template, -1)
        liveness.forget(tx, after.id)
    _log(tx, change)
    failures.keep(tx, of_failure(change))
    return after


def _note_boot(tx: Tx, change: NodeChange, before: Node) -> None:
    after = change.after
    if change.name is Fact.JOINED and after.boot_id != before.boot_id:
        liveness.joined(tx, after, stall_after=templates.stall_after(tx, after.template, after.revision))
    elif change.name is Fact.ADVANCED:
        liveness.advanced(tx, after.id, at=change.at)
    elif after.up and not before.up:
        liveness.booted(tx, after.id)
    elif before.state is NodeState.CREATED and after.state is not NodeState.CREATED and not after.up:
        liveness.stopped_booting(tx, after.id)
    boots.note(tx, change)


def adopt(tx: Tx, node: Node, *, now: float) -> bool:
    """Insert a machine's record; the caller accounts for its room. False: it has a live record already."""
    if not tx.change(_INSERT_IF_NEW, NODE.params(node)):
        return False
    if node.up:
        liveness.booted(tx, node.id)
    _log(tx, lifecycle.adopt(node, now=now))
    return True


def adopt_stray(tx: Tx, node: Node, *, now: float) -> Node | None:
    if node.state is not NodeState.TERMINATING:
        raise IllegalTransition(f"cannot adopt stray {node.machine_id} as {node.state}: only as terminating")
    opened = tx.execute("SELECT 1 FROM launches WHERE id = :id AND closed_at IS NULL", {"id": node.launch_id})
    if opened:
        raise Conflict(f"cannot adopt {node.machine_id} as a stray: its launch {node.launch_id} is open")
    if not adopt(tx, node, now=now):
        return None
    counters.add(tx, node.template, 1)
    failures.keep(tx, of_failure(lifecycle.adopt(node, now=now)))
    return node


def _log(tx: Tx, change: NodeChange) -> None:
    events.append(
        tx, drafts.of_node(change), at=change.at, operations=operations_of(change), record=change.after
    )
