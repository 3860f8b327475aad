"""Clusters and the tokens of their work, as the cluster store promises.

Owns both tables. A token is a secret: written and read by its own verbs, and in no record and no event.
"""

from collections.abc import Sequence
from functools import cache

from muster.domain import events as drafts
from muster.domain.cluster import Cluster, ClusterChange, ClusterState
from muster.domain.errors import ClusterExists, Conflict, NotFound
from muster.domain.ids import ClusterId, OperationId
from muster.domain.operation import Fence, Operation, OperationChange
from muster.ports.cluster_store import FORGET
from muster.ports.store import Cursor, Page
from muster.stores import cursors
from muster.stores.sql import events, guards, operations, statements
from muster.stores.sql.engines import EngineVerbs, read, write
from muster.stores.sql.rows import CLUSTER
from muster.stores.sql.tx import Tx, Value

LIVE_NAMED = f"SELECT {CLUSTER.select} FROM clusters WHERE lower(name) = :name AND state <> 'deleted'"
EVER_NAMED = f"""
    SELECT {CLUSTER.select} FROM clusters WHERE lower(name) = :name ORDER BY created_at DESC, id DESC LIMIT 1
"""
OF_OPERATION = f"SELECT {CLUSTER.select} FROM clusters WHERE operation_id = :id"
CREATE_SECONDS = """
    SELECT ready_at - created_at FROM clusters WHERE template = :template AND ready_at IS NOT NULL
    ORDER BY ready_at DESC, id DESC LIMIT :limit
"""
_KEEP = """
    INSERT INTO cluster_tokens (cluster_id, token) VALUES (:id, :token)
    ON CONFLICT (cluster_id) DO UPDATE SET token = excluded.token
"""
_FORGET = "DELETE FROM cluster_tokens WHERE cluster_id = :id"
_TOKEN = "SELECT token FROM cluster_tokens WHERE cluster_id = :id"  # noqa: S105 — a statement


def _get(tx: Tx, cluster_id: ClusterId) -> Cluster:
    return CLUSTER.get(tx, cluster_id)


def _named(tx: Tx, name: str) -> Cluster | None:
    asked: dict[str, Value] = {"name": name.lower()}
    return CLUSTER.first(tx.execute(LIVE_NAMED, asked) or tx.execute(EVER_NAMED, asked))


def _of_operation(tx: Tx, operation_id: OperationId) -> Cluster:
    rows = tx.execute(OF_OPERATION, {"id": operation_id})
    if not rows:
        raise NotFound("cluster of operation", operation_id)
    return CLUSTER.decode(rows[0])


@cache
def listing(states: int, *, paged: bool) -> str:
    before = " AND (created_at, id) < (:created_at, :id)" if paged else ""
    wanted = [
        f"SELECT {CLUSTER.select} FROM clusters WHERE state = :state{index}{before}"
        for index in range(states)
    ]
    return statements.merge_queries(wanted, "created_at DESC, id DESC")


def _page(tx: Tx, *, states: Sequence[ClusterState], after: Cursor | None, limit: int) -> Page[Cluster]:
    wanted = tuple(dict.fromkeys(state.value for state in states))
    if not wanted:
        return Page(items=(), next=None)
    params: dict[str, Value] = {"limit": limit + 1, **statements.bind("state", wanted)}
    if after is not None:
        params["created_at"], params["id"] = cursors.decode("clusters", after, float, str)
    rows = tx.execute(listing(len(wanted), paged=after is not None), params)
    return cursors.page(CLUSTER.all(rows), limit, "clusters")


def _submit(tx: Tx, operation: Operation, change: ClusterChange) -> tuple[Operation, bool]:
    stored, made = operations.submit(tx, operation, actor=change.actor)
    if made:
        _apply(tx, change, operation)
    return stored, made


def _write(
    tx: Tx,
    change: ClusterChange,
    *,
    fence: Fence,
    operation: OperationChange | None = None,
    token: str | None = None,
) -> Cluster:
    guards.check_fence(tx, fence)
    _apply(tx, change, None)
    if token == FORGET or change.after.state is not ClusterState.CREATING:
        tx.change(_FORGET, {"id": change.after.id})
    elif token is not None:
        tx.change(_KEEP, {"id": change.after.id, "token": token})
    if operation is not None:
        operations.write(tx, operation, fence=fence)
    return change.after


def _apply(tx: Tx, change: ClusterChange, operation: Operation | None) -> None:
    if change.before is None:
        _insert(tx, change.after)
    else:
        guards.update(tx, CLUSTER, change.before, change.after)
    concerned = () if operation is None else (operation.id,)
    events.append(tx, drafts.of_cluster(change), at=change.at, operations=concerned)


def _insert(tx: Tx, cluster: Cluster) -> None:
    if tx.change(f"{CLUSTER.insert} ON CONFLICT DO NOTHING", CLUSTER.params(cluster)):
        return
    found = tx.execute(LIVE_NAMED, {"name": cluster.name.lower()})
    if not found:
        raise Conflict(f"cannot make cluster {cluster.id}: there is one of that id")
    there = CLUSTER.decode(found[0])
    message = f"cannot make cluster {cluster.name}: there is one of that name, and it is {there.state}"
    raise ClusterExists(there.name, there.state, message)


def _create_seconds(tx: Tx, template: str, *, limit: int) -> Sequence[float]:
    return [row[0] for row in tx.execute(CREATE_SECONDS, {"template": template, "limit": limit})]


def _token(tx: Tx, cluster_id: ClusterId) -> str | None:
    rows = tx.execute(_TOKEN, {"id": cluster_id})
    return None if not rows else str(rows[0][0])


class SqlClusters(EngineVerbs):
    """Implements muster.ports.cluster_store.ClusterStore."""

    submit = write(_submit)
    cluster = read(_get)
    named = read(_named)
    of_operation = read(_of_operation)
    clusters = read(_page)
    write = write(_write)
    token = read(_token)
    create_seconds = read(_create_seconds)
