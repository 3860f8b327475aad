"""Operation records: submitted once, read with all they hold, written under guard.

This module owns their statements except those of the lease. A submission is idempotent by its key. A write
changes only its own columns, so it never undoes a lease that was renewed meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from muster.domain import events as drafts
from muster.domain.errors import (
    Conflict,
    IllegalTransition,
    LeaseLost,
    NotFound,
    QueueFull,
    StoreFull,
)
from muster.domain.failures import of_operation as of_failure
from muster.domain.ids import NodeId, OperationId
from muster.domain.node import NodeChange
from muster.domain.operation import TO_THE_END, Fence, Kind, Operation, OperationChange, Status
from muster.ports.store import AHEAD_MOST, Cursor, Holdings, NodeView, OperationView, Page, Pool
from muster.stores import cursors
from muster.stores.records import same_request
from muster.stores.sql import (
    events,
    failures,
    guards,
    launches,
    liveness,
    nodes,
    statements,
)
from muster.stores.sql.rows import LAUNCH, NODE, OPERATION, age_of_operation, known_operations
from muster.stores.sql.tx import FULL, Params, Row, Tx, Value

_OF_NODE = f"""
    SELECT {OPERATION.select} FROM operations WHERE id = (SELECT operation_id FROM nodes WHERE id = :id)
"""
OF_TOKEN = f"""
    SELECT {NODE.qualified("n")}, {OPERATION.qualified("o")}
    FROM credentials AS c
        JOIN nodes AS n ON n.id = c.node_id
        LEFT JOIN operations AS o ON o.id = n.operation_id
    WHERE c.token_hash = :token
"""
_BY_KEY = f"SELECT {OPERATION.select} FROM operations WHERE idempotency_key = :key"
_INSERT = f"{OPERATION.inserting('waiting_owner')} ON CONFLICT (id) DO NOTHING RETURNING id"
# A gang is bounded where requests enter; this bound only keeps a bug from loading everything.
_OF_OPERATION = "FROM nodes WHERE operation_id = :id ORDER BY created_at, id LIMIT 10000"
NODES_OF = f"SELECT {NODE.select} {_OF_OPERATION}"
NODES_SEEN = f"""
    SELECT {NODE.select}, (SELECT l.seen_at FROM liveness AS l WHERE l.node_id = nodes.id) {_OF_OPERATION}
"""
AHEAD = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM operations
        WHERE queued_since IS NOT NULL
          AND template = (SELECT o.template FROM operations AS o WHERE o.id = :id)
          AND (created_at, id) < ((SELECT o.created_at FROM operations AS o WHERE o.id = :id), :id)
        LIMIT {AHEAD_MOST}
    ) AS counted
"""
PLACED = f"SELECT {OPERATION.select}, ({AHEAD}) FROM operations WHERE id = :id"
"""With how many are ahead of it in the queue."""
WAITING = """
    SELECT count(*) FROM (
        SELECT 1 FROM operations WHERE waiting_owner = :owner AND status = 'queued' LIMIT :cap
    ) AS counted
"""
_LEASE = "lease_owner, lease_until, epoch"
_LEASED_UNTIL = "SELECT lease_until FROM operations WHERE id = :id"


def get(tx: Tx, operation_id: OperationId) -> Operation:
    return OPERATION.get(tx, operation_id)


def view(tx: Tx, operation_id: OperationId) -> OperationView:
    named: Params = {"id": operation_id}
    placed, made, held = tx.execute_all((PLACED, named), (launches.OF_OPERATION, named), (NODES_SEEN, named))
    if not placed:
        raise NotFound("operation", operation_id)
    nodes_of = tuple(NODE.decode(row[:-1]) for row in held)
    return OperationView(
        operation=OPERATION.decode(placed[0][:-1]),
        nodes=nodes_of,
        launches=tuple(LAUNCH.decode(row) for row in made),
        seen={node.id: row[-1] for node, row in zip(nodes_of, held, strict=True) if row[-1] is not None},
        ahead=placed[0][-1],
    )


def holdings(tx: Tx, operation_id: OperationId) -> Holdings:
    named: Params = {"id": operation_id}
    made, held = tx.execute_all((launches.OF_OPERATION, named), (NODES_OF, named))
    return Holdings(nodes=tuple(NODE.all(held)), launches=tuple(LAUNCH.all(made)))


def node_view(tx: Tx, node_id: NodeId) -> NodeView:
    found, its_operation = tx.execute_all((NODE.by_id, {"id": node_id}), (_OF_NODE, {"id": node_id}))
    if not found:
        raise NotFound("node", node_id)
    return NodeView(node=NODE.decode(found[0]), operation=OPERATION.first(its_operation))


def node_view_for_token(tx: Tx, token_hash: str) -> NodeView | None:
    rows = tx.execute(OF_TOKEN, {"token": token_hash})
    if not rows:
        return None
    place = len(NODE.columns)
    node, operation = rows[0][:place], rows[0][place:]
    return NodeView(
        node=NODE.decode(node), operation=None if operation[0] is None else OPERATION.decode(operation)
    )


@cache
def listing(statuses: tuple[Status, ...], *, kind: Kind | None, by_run: bool, paged: bool) -> str:
    """Return the statement for a page of operations, with statuses and kind in its text (see
    `nodes.listing`)."""
    of_kind = "" if kind is None else f" AND kind = '{kind.value}'"
    of_run = " AND run = :run" if by_run else ""
    extra = f"{of_kind}{of_run}{' AND (created_at, id) < (:created_at, :id)' if paged else ''}"
    return statements.merge_queries(
        [
            f"SELECT {OPERATION.select} FROM operations WHERE status = '{status.value}'{extra}"
            for status in statuses
        ],
        "created_at DESC, id DESC",
    )


def page(
    tx: Tx,
    *,
    kind: Kind | None,
    statuses: Sequence[Status],
    run: str | None,
    after: Cursor | None,
    limit: int,
) -> Page[Operation]:
    wanted = tuple(dict.fromkeys(statuses))
    params: dict[str, Value] = {"limit": limit + 1, "run": run}
    if after is not None:
        params["created_at"], params["id"] = cursors.decode("operations", after, float, str)
    if not wanted:
        return Page(items=(), next=None)
    sql = listing(wanted, kind=kind, by_run=run is not None, paged=after is not None)
    rows = tx.execute(sql, params)
    items = tuple(known_operations(rows[:limit]))
    if len(rows) <= limit:
        return Page(items=items, next=None)
    return Page(items=items, next=cursors.encode("operations", *age_of_operation(rows[limit - 1])))


def submit(
    tx: Tx,
    operation: Operation,
    *,
    pool: Pool | None = None,
    fence: Fence | None = None,
    queue_cap: int | None = None,
    actor: str = "",
) -> tuple[Operation, bool]:
    guards.check_fence(tx, fence)
    first = by_key(tx, operation.idempotency_key)
    if first is not None:
        return same_request(first, operation), False
    if operation.kind not in TO_THE_END and tx.short():
        raise StoreFull(f"cannot use the store: {FULL}", why=FULL)
    owner = operation.waiting_owner
    if queue_cap is not None and owner is not None:
        _check_queue(tx, owner, queue_cap)
    row: Params = {**OPERATION.params(operation), "waiting_owner": owner}
    tx.require(_INSERT, row, partial(_taken, operation.id))
    if pool is not None:
        _refilled(tx, pool, operation.id)
    told = drafts.of_submission(operation, actor=actor)
    events.append(tx, told, at=operation.created_at, record=operation)
    return operation, True


def _taken(operation_id: OperationId) -> Conflict:
    return Conflict(f"cannot submit operation {operation_id}: there is one of that id")


def _check_queue(tx: Tx, owner: str, cap: int) -> None:
    if tx.execute(WAITING, {"owner": owner, "cap": cap})[0][0] >= cap:
        raise QueueFull(owner, cap)


def by_key(tx: Tx, key: str | None) -> Operation | None:
    if key is None:
        return None
    return OPERATION.first(tx.execute(_BY_KEY, {"key": key}))


def write(
    tx: Tx,
    change: OperationChange,
    *,
    fence: Fence | None = None,
    clock: Callable[[], float] | None = None,
) -> Operation:
    guards.check_fence(tx, fence)
    check_place(tx, change)
    check_freshness(tx, change, clock)
    # The lease is not guarded by the version: what is stored may be newer than what the caller read.
    owner, until, epoch = guards.update_returning(tx, OPERATION, change.before, change.after, _LEASE)
    return _told(tx, change, replace(change.after, lease_owner=owner, lease_until=until, epoch=epoch))


def _told(tx: Tx, change: OperationChange, after: Operation) -> Operation:
    """Append what a write of an operation says, and return the operation after it."""
    events.append(tx, drafts.of_operation(change), at=after.updated_at, record=after)
    failures.keep(tx, of_failure(change))
    return after


def complete(
    tx: Tx,
    commit: OperationChange,
    handed_over: Sequence[NodeChange],
    end: OperationChange,
    *,
    fence: Fence,
    clock: Callable[[], float],
) -> Operation:
    write(tx, commit, fence=fence, clock=clock)  # the fence holds to the end of the transaction
    nodes.apply_all(tx, handed_over)
    guards.update(tx, OPERATION, end.before, end.after)  # an end gives the lease up: nothing of it is read
    return _told(tx, end, end.after)


def check_place(tx: Tx, change: OperationChange) -> None:
    if change.first_in_line:
        tx.check(AHEAD, {"id": change.before.id}, partial(_judge_place, change))


def _judge_place(change: OperationChange, rows: Sequence[Row]) -> None:
    ((ahead,),) = rows
    if ahead:
        raise Conflict(f"cannot take {change.before.id} out of the queue: {ahead} older ones are in it")


def check_freshness(tx: Tx, change: OperationChange, clock: Callable[[], float] | None) -> None:
    limit, name = change.fresh_for, change.before.id
    if limit is None:
        return
    if clock is None:
        raise IllegalTransition(f"cannot commit {name}: the change has no time")

    # The clock is asked when the rows are there: by then no lock is waited for any more.
    def judge_lease(rows: Sequence[Row]) -> None:
        late = clock() - (rows[0][0] if rows else 0.0)
        if late >= 0:
            raise LeaseLost(f"cannot commit {name}: its lease ran out {late:.1f} s ago; stop driving it")

    def judge_silence(node_id: NodeId, seen_at: float) -> None:
        silent = clock() - seen_at
        if silent > limit:
            raise Conflict(f"cannot commit {name}: {node_id} sent no heartbeat for {silent:.1f} s")

    tx.check(_LEASED_UNTIL, {"id": name}, judge_lease)
    liveness.check_seen(tx, [member.node_id for member in change.after.members], judge_silence)


def pool(tx: Tx, template: str) -> Pool:
    rows = tx.execute("SELECT version, refill FROM pools WHERE template = :template", {"template": template})
    if not rows:
        return Pool(template=template, version=0, refill=None)
    version, refill = rows[0]
    return Pool(template=template, version=version, refill=refill)


def _refilled(tx: Tx, pool: Pool, operation_id: OperationId) -> None:
    """Check that the pool is still at the version that the refill's submitter saw."""
    tx.change(
        "INSERT INTO pools (template, version) VALUES (:template, 0) ON CONFLICT (template) DO NOTHING",
        {"template": pool.template},
    )
    moved = tx.change(
        """
        UPDATE pools SET version = version + 1, refill = :refill
        WHERE template = :template AND version = :version
        """,
        {"template": pool.template, "version": pool.version, "refill": operation_id},
    )
    if not moved:
        raise Conflict(f"cannot refill {pool.template}: its pool has moved on from version {pool.version}")
