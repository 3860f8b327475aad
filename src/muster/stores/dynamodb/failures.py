"""Keep failures for counting: an item per node or operation, written in the same write."""

from collections.abc import Sequence
from dataclasses import replace

from muster.domain.diagnosis import Cause
from muster.domain.failures import Failure
from muster.domain.ids import NodeId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.stores.dynamodb import keys
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, key_of, moment, record, restored
from muster.stores.dynamodb.writes import Write


async def keep(table: Table, write: Write, failure: Failure | None) -> None:
    """Add a failure. A node that fails again after a rescue keeps its last failure."""
    if failure is not None and failure.revision is None:
        failure = replace(failure, revision=await _revision(table, failure))
    put(write, failure)


def put(write: Write, failure: Failure | None) -> None:
    if failure is not None:
        item = {"d": record(failure), "tp": keys.FAILED, "ts": moment(failure.at, failure.id)}
        write.put(keys.failure(failure.id), item)


async def _revision(table: Table, failure: Failure) -> int | None:
    """Return the revision of the failed node, or of what the operation launched."""
    node = None if failure.node_id is None else await table.get(keys.node(failure.node_id))
    if node is not None:
        return restored(Node, node).revision
    if failure.operation_id is None:
        return None
    partition, _ = keys.operation(failure.operation_id)
    found = await table.query(partition, low="LAUNCH#", high=f"LAUNCH#{keys.LAST}")
    return max((restored(Launch, item).revision for item in found), default=None)


async def diagnosed(table: Table, write: Write, node_id: NodeId, cause: Cause) -> None:
    if await table.get(keys.failure(node_id)) is not None:
        write.update(keys.failure(node_id), "SET #cause = :cause", {"cause": cause.value})


async def since(table: Table, *, since: float, limit: int) -> Sequence[Failure]:
    found = await table.query(keys.FAILED, index="timed", low=moment(since), forward=False, most=limit)
    names = [key_of(item) for item in found]
    items = await table.get_many(names)
    return [_failure(items[name]) for name in names if name in items]


def _failure(item: Item) -> Failure:
    cause = item.get("cause")
    return replace(restored(Failure, item), cause=None if cause is None else Cause(str(cause)))
