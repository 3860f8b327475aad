"""Keep failures for counting: a row per node or operation, written in the same transaction."""

from collections.abc import Sequence

from muster.domain.diagnosis import Cause
from muster.domain.failures import Failure
from muster.domain.ids import NodeId
from muster.stores.sql.rows import FAILURE
from muster.stores.sql.tx import Tx

_KEEP = FAILURE.upserting("id")
"""What fails again, after a rescue, is the same node: the last time counts."""
_REVISION = """
    SELECT coalesce(
        (SELECT revision FROM nodes WHERE id = :node_id),
        (SELECT max(revision) FROM launches WHERE operation_id = :operation_id)
    )
"""
SINCE = f"""
    SELECT {FAILURE.select} FROM failures WHERE at >= :since ORDER BY at DESC, id DESC LIMIT :limit
"""


def keep(tx: Tx, failure: Failure | None) -> None:
    if failure is None:
        return
    row = FAILURE.params(failure)
    if failure.revision is None:
        named = {"node_id": failure.node_id, "operation_id": failure.operation_id}
        row["revision"] = tx.execute(_REVISION, named)[0][0]
    tx.change(_KEEP, row)


def diagnosed(tx: Tx, node_id: NodeId, cause: Cause) -> None:
    tx.change("UPDATE failures SET cause = :cause WHERE id = :id", {"id": node_id, "cause": cause.value})


def since(tx: Tx, *, since: float, limit: int) -> Sequence[Failure]:
    return FAILURE.all(tx.execute(SINCE, {"since": since, "limit": limit}))
