"""Templates with their revisions, and the installation itself.

Owns both. A template's revision rises only when its nodes are to be made differently; every revision is kept,
because launches and nodes name theirs. How the pool is kept changes in the current revision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from muster.domain import checks, serialization
from muster.domain import events as drafts
from muster.domain.errors import Conflict, NotFound
from muster.domain.ids import InstallationId
from muster.domain.template import Template, TemplateSpec, applied
from muster.ports.store import Installation
from muster.stores.records import MAX_NODES
from muster.stores.sql import events
from muster.stores.sql.rows import from_json, to_json
from muster.stores.sql.tx import Retry, Row, Tx, Value

_COLUMNS = "spec, revision, coalesce(version, revision), applied_at"
_CURRENT = f"SELECT {_COLUMNS} FROM templates WHERE name = :name ORDER BY revision DESC LIMIT 1"
_REVISION = f"SELECT {_COLUMNS} FROM templates WHERE name = :name AND revision = :revision"
_ALL_CURRENT = f"""
    SELECT {_COLUMNS} FROM templates AS t
    WHERE revision = (SELECT max(revision) FROM templates AS newer WHERE newer.name = t.name)
    ORDER BY name LIMIT 10000
"""
_INSERT = """
    INSERT INTO templates (name, revision, version, spec, applied_at)
    VALUES (:name, :revision, :version, :spec, :applied_at)
"""
# Where transactions run side by side, one that waited for the row may find that it is not the current one.
_ADJUST = """
    UPDATE templates SET spec = :spec, version = :version, applied_at = :applied_at
    WHERE name = :name AND revision = :revision
      AND NOT EXISTS (SELECT 1 FROM templates AS n WHERE n.name = :name AND n.revision > :revision)
"""


def name_installation(tx: Tx, installation_id: InstallationId) -> None:
    """Name a new store; an existing one keeps its name."""
    if not tx.execute("SELECT 1 FROM installation"):
        tx.change(
            "INSERT INTO installation (id, max_nodes) VALUES (:id, :max_nodes)",
            {"id": installation_id, "max_nodes": MAX_NODES},
        )


def installation(tx: Tx) -> Installation:
    installation_id, max_nodes = tx.execute("SELECT id, max_nodes FROM installation")[0]
    return Installation(id=InstallationId(installation_id), max_nodes=max_nodes)


def process_home(tx: Tx, home: str) -> str:
    """Return where the replicas keep their process nodes, as the first of them said."""
    stored: str | None = tx.execute("SELECT process_home FROM installation" + tx.locks.hold)[0][0]
    if stored is None:
        tx.change("UPDATE installation SET process_home = :home", {"home": home})
    return stored or home


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    template: int | None
    """None: there is no such template."""
    total: int


def caps(tx: Tx, template: str) -> Caps:
    """Return the caps as they are stored now, never from memory."""
    rows = tx.execute(_CURRENT, {"name": template})
    return Caps(
        template=_template(rows[0]).spec.max_nodes if rows else None, total=installation(tx).max_nodes
    )


def limit_installation(tx: Tx, max_nodes: int, *, now: float, actor: str = "") -> Installation:
    checks.whole("max_nodes", max_nodes, least=0, most=checks.MACHINES_MAX)
    before = installation(tx)
    if before.max_nodes != max_nodes:
        tx.change("UPDATE installation SET max_nodes = :max_nodes", {"max_nodes": max_nodes})
        told = drafts.of_installation(before.id, "limited", {"max_nodes": max_nodes}, actor=actor)
        events.append(tx, told, at=now)
    return installation(tx)


def apply(tx: Tx, spec: TemplateSpec, *, now: float, actor: str = "", over: int | None = None) -> Template:
    rows = tx.execute(_CURRENT + tx.locks.hold, {"name": spec.name})
    before = _template(rows[0]) if rows else None
    if over is not None and (before is None or before.version != over):
        raise Conflict(f"cannot change template {spec.name}: version {over} is not its current one")
    after = applied(before, spec, now=now)
    if after is before:
        return after
    adjusted = before is not None and before.revision == after.revision
    written: dict[str, Value] = {
        "name": spec.name,
        "revision": after.revision,
        "version": after.version,
        "spec": to_json(serialization.fields_to_plain(spec)),
        "applied_at": now,
    }
    if not tx.change(_ADJUST if adjusted else _INSERT, written):
        raise Retry(f"template {spec.name} was changed at the same moment")
    events.append(tx, drafts.of_template(before, after, actor=actor), at=now)
    return after


def get(tx: Tx, name: str, revision: int | None = None) -> Template:
    rows = tx.execute(_CURRENT if revision is None else _REVISION, {"name": name, "revision": revision})
    if not rows:
        raise NotFound("template", name if revision is None else f"{name}, revision {revision}")
    return _template(rows[0])


def current(tx: Tx) -> Sequence[Template]:
    return [_template(row) for row in tx.execute(_ALL_CURRENT)]


def _template(row: Row) -> Template:
    spec, revision, version, applied_at = row
    return Template(spec=_spec(spec), revision=revision, version=version, applied_at=applied_at)


@lru_cache(maxsize=256)
def _spec(text: str) -> TemplateSpec:
    """Decode a template. Templates are read for nearly every decision and seldom change; equal text is an
    equal value."""
    return serialization.from_plain(TemplateSpec, from_json(text))


def stall_after(tx: Tx, name: str, revision: int) -> float | None:
    """Return how long a boot of this revision may stand still, if the revision says."""
    try:
        return get(tx, name, revision).spec.stall_after
    except NotFound:
        return None
