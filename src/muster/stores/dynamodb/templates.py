"""Templates with their revisions, and the installation itself.

Owns both. The current revision of each template is an item in one small partition, so that all of them are
one consistent read. A cap lives in the counter that it bounds.
"""

from collections.abc import Sequence
from functools import lru_cache

from muster.domain import checks, plain
from muster.domain import events as drafts
from muster.domain.errors import Conflict, NotFound
from muster.domain.events import Draft, Entity
from muster.domain.ids import InstallationId
from muster.domain.plain import Plain
from muster.domain.template import Template, TemplateSpec
from muster.ports.store import TOTAL, Installation
from muster.stores.dynamodb import counters, keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Again, Table
from muster.stores.dynamodb.values import Item, Value, packed, text, unpacked, whole
from muster.stores.dynamodb.writing import ABSENT, Write


async def installation(table: Table) -> Installation:
    found = await table.get_many([keys.META, keys.counter(TOTAL)])
    return Installation(
        id=InstallationId(text(found[keys.META], "installation")),
        max_nodes=whole(found[keys.counter(TOTAL)], "cap"),
    )


async def process_home(table: Table, home: str) -> str:
    """Where the replicas keep their process nodes: what the first of them said."""
    first = "attribute_not_exists(#process_home)"
    if await table.update(keys.META, "SET #process_home = :home", where=first, values={"home": home}):
        return home
    return text(await table.get(keys.META) or {}, "process_home")


async def limit_installation(
    table: Table, feed: Feed, max_nodes: int, *, now: float, actor: str
) -> Installation:
    checks.whole("max_nodes", max_nodes, least=0, most=checks.MACHINES_MAX)
    before = await installation(table)
    if before.max_nodes != max_nodes:
        write = Write()
        write.update(
            keys.counter(TOTAL),
            "SET #cap = :cap",
            {"cap": max_nodes, "before": before.max_nodes},
            where="#cap = :before",
            refused=lambda _item: Again("the limit"),
        )
        write.tell(announcement(before.id, "limited", {"max_nodes": max_nodes}, actor=actor), at=now)
        await feed.commit(write)
    return Installation(id=before.id, max_nodes=max_nodes)


def announcement(
    entity_id: str, name: str, changes: dict[str, Plain], *, detail: str = "", actor: str = ""
) -> Draft:
    """An event of the installation, which has no version of its own."""
    return Draft(
        entity=Entity.INSTALLATION,
        entity_id=entity_id,
        version=0,
        name=name,
        changes=changes,
        detail=detail,
        actor=actor,
    )


async def apply(
    table: Table, feed: Feed, spec: TemplateSpec, *, now: float, actor: str, over: int | None
) -> Template:
    item = await table.get(keys.template(spec.name))
    before = None if item is None else _template(item)
    if over is not None and (before is None or before.revision != over):
        raise Conflict(f"cannot change template {spec.name}: revision {over} is not its current one")
    if before is not None and before.spec == spec:
        return before
    after = Template(spec=spec, revision=before.revision + 1 if before else 1, applied_at=now)
    written: Item = {
        "revision": after.revision,
        "d": packed(plain.fields_to_plain(spec)),
        "applied_at": now,
    }
    write = Write()
    write.put(
        keys.template(spec.name),
        written,
        where=ABSENT if before is None else "#revision = :before",
        values={} if before is None else {"before": before.revision},
        refused=lambda _item: Again(spec.name),
    )
    write.put(keys.revision(spec.name, after.revision), written)
    write.update(
        keys.counter(counters.scope_of(spec.name)),
        "SET #cap = :cap ADD #used :nothing",
        {"cap": spec.max_nodes, "nothing": 0},
    )
    write.tell(drafts.of_template(after, actor=actor), at=now)
    await feed.commit(write)
    return after


async def get(table: Table, name: str, revision: int | None) -> Template:
    item = await table.get(keys.template(name) if revision is None else keys.revision(name, revision))
    if item is None:
        raise NotFound("template", name if revision is None else f"{name}, revision {revision}")
    return _template(item)


async def current(table: Table) -> Sequence[Template]:
    return [_template(item) for item in await table.query(keys.TEMPLATES, most=10_000)]


async def current_revision(table: Table, name: str) -> int:
    """0: there is no such template."""
    item = await table.get(keys.template(name))
    return 0 if item is None else whole(item, "revision")


async def stall_after(table: Table, name: str, revision: int) -> float | None:
    """How long a boot of this revision may stand still, if the revision says."""
    try:
        return (await get(table, name, revision)).spec.stall_after
    except NotFound:
        return None


def _template(item: Item) -> Template:
    applied_at = item["applied_at"]
    return Template(
        spec=_spec(item["d"]),
        revision=whole(item, "revision"),
        applied_at=float(applied_at),  # type: ignore[arg-type]  # it was written as a number
    )


@lru_cache(maxsize=256)
def _spec(data: Value) -> TemplateSpec:
    """Templates are read for nearly every decision and seldom change."""
    return plain.from_plain(TemplateSpec, unpacked(data))
