"""Boots: their marks while they last, how long they took in the end, and the bundles of those that failed.

Owns the tables boot_marks, boots and bundles. A mark and a duration are written with the node's own write;
the durations of a kind are bounded, the oldest making way.
"""

from collections.abc import Sequence

from muster.domain import serialization
from muster.domain.boot import KEPT_BOOTS, Boot, Mark
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.events import of_diagnosis
from muster.domain.ids import NodeId
from muster.domain.node import Node, NodeChange
from muster.stores.records import boot_of
from muster.stores.sql import events, failures
from muster.stores.sql.rows import BOOT, NODE, from_json, to_json
from muster.stores.sql.tx import Tx, Value

_MARKS = "SELECT at, phase, step FROM boot_marks WHERE node_id = :id ORDER BY version"
_BOOTS = f"""
    SELECT {BOOT.select} FROM boots WHERE template = :template AND revision = :revision
    ORDER BY instance_type, booted_at, node_id
"""
_SURPLUS = """
    DELETE FROM boots WHERE node_id IN (
        SELECT node_id FROM boots
        WHERE template = :template AND revision = :revision AND instance_type = :instance_type
        ORDER BY booted_at DESC, node_id DESC LIMIT 1000 OFFSET :kept
    )
"""
UNDIAGNOSED = f"""
    SELECT {NODE.select} FROM nodes AS n
    WHERE n.state = 'failed' AND NOT EXISTS (SELECT 1 FROM bundles AS b WHERE b.node_id = n.id)
    ORDER BY n.id LIMIT :limit
"""


def note(tx: Tx, change: NodeChange) -> None:
    """Write what a node's write says about its boot."""
    after = change.after
    mark = change.mark
    if mark is not None:
        tx.change(
            """
            INSERT INTO boot_marks (node_id, version, at, phase, step)
            VALUES (:id, :version, :at, :phase, :step)
            """,
            {
                "id": after.id,
                "version": after.version,
                "at": mark.at,
                "phase": mark.phase,
                "step": mark.step,
            },
        )
    if change.came_up and change.before is not None and change.teaches:
        _learn(tx, boot_of(after, marks(tx, after.id)))


def _learn(tx: Tx, boot: Boot) -> None:
    tx.change(BOOT.insert, BOOT.params(boot))
    kind: dict[str, Value] = {
        "template": boot.template,
        "revision": boot.revision,
        "instance_type": boot.instance_type,
    }
    tx.change(_SURPLUS, {**kind, "kept": KEPT_BOOTS})


def marks(tx: Tx, node_id: NodeId) -> Sequence[Mark]:
    return [Mark(at=at, phase=phase, step=step) for at, phase, step in tx.execute(_MARKS, {"id": node_id})]


def of_revision(tx: Tx, template: str, revision: int) -> Sequence[Boot]:
    return BOOT.all(tx.execute(_BOOTS, {"template": template, "revision": revision}))


def undiagnosed(tx: Tx, *, limit: int) -> Sequence[Node]:
    return NODE.all(tx.execute(UNDIAGNOSED, {"limit": limit}))


def file_bundle(tx: Tx, bundle: Bundle, *, cause: Cause) -> bool:
    filed = tx.change(
        "INSERT INTO bundles (node_id, bundle) VALUES (:id, :bundle) ON CONFLICT (node_id) DO NOTHING",
        {"id": bundle.node_id, "bundle": to_json(serialization.to_plain(bundle))},
    )
    if filed:
        events.append(tx, of_diagnosis(bundle.node_id), at=bundle.collected_at)
        failures.diagnosed(tx, bundle.node_id, cause)
    return bool(filed)


def bundle(tx: Tx, node_id: NodeId) -> Bundle | None:
    rows = tx.execute("SELECT bundle FROM bundles WHERE node_id = :id", {"id": node_id})
    return serialization.from_plain(Bundle, from_json(rows[0][0])) if rows else None
