"""Pool rows: the version that lets one refill per template be submitted at a time."""

from muster.domain.errors import Conflict
from muster.domain.ids import OperationId
from muster.ports.store import Pool
from muster.stores.sql.tx import Tx


def get(tx: Tx, template: str) -> Pool:
    rows = tx.execute("SELECT version, refill FROM pools WHERE template = :template", {"template": template})
    if not rows:
        return Pool(template=template, version=0, refill=None)
    version, refill = rows[0]
    return Pool(template=template, version=version, refill=refill)


def refilled(tx: Tx, pool: Pool, operation_id: OperationId) -> None:
    """A refill was submitted by somebody who saw the pool at this version."""
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
