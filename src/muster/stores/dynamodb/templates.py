"""Templates with their revisions, and the installation itself.

Owns both. The current revision of each template is an item in one small partition, so that all of them are
one consistent read. A cap lives in the counter that it bounds.
"""

from collections.abc import Sequence
from functools import lru_cache

from muster.domain import checks, serialization
from muster.domain import events as drafts
from muster.domain.errors import Conflict, NotFound
from muster.domain.ids import InstallationId
from muster.domain.template import Template, TemplateSpec, applied
from muster.ports.store import TOTAL, Installation
from muster.stores.dynamodb import counters, keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Item, Value, packed, text, unpacked, whole
from muster.stores.dynamodb.writes import ABSENT, Write, again

_UNCHANGED = "#revision = :revision AND (attribute_not_exists(#version) OR #version = :version)"
"""Templates had no version of their own at first: it was the revision."""


async def installation(table: Table) -> Installation:
    found = await table.get_many([keys.META, keys.counter(TOTAL)])
    return Installation(
        id=InstallationId(text(found[keys.META], "installation")),
        max_nodes=whole(found[keys.counter(TOTAL)], "cap"),
    )


async def process_home(table: Table, home: str) -> str:
    """Return where the replicas keep their process nodes, as the first of them said."""
    first = "attribute_not_exists(#process_home)"
    if await table.update(keys.META, "SET #process_home = :home", where=first, values={"home": home}):
        return home
    return text(await table.get(keys.META) or {}, "process_home")


async def limit_installation(feed: Feed, max_nodes: int, *, now: float, actor: str = "") -> Installation:
    checks.whole("max_nodes", max_nodes, least=0, most=checks.MACHINES_MAX)
    before = await installation(feed.table)
    if before.max_nodes != max_nodes:
        write = Write()
        write.update(
            keys.counter(TOTAL),
            "SET #cap = :cap",
            {"cap": max_nodes, "before": before.max_nodes},
            where="#cap = :before",
            refused=again("the limit"),
        )
        told = drafts.of_installation(before.id, "limited", {"max_nodes": max_nodes}, actor=actor)
        write.tell(told, at=now)
        await feed.commit(write)
    return Installation(id=before.id, max_nodes=max_nodes)


async def apply(
    feed: Feed, spec: TemplateSpec, *, now: float, actor: str = "", over: int | None = None
) -> Template:
    item = await feed.table.get(keys.template(spec.name))
    before = None if item is None else _template(item)
    if over is not None and (before is None or before.version != over):
        raise Conflict(f"cannot change template {spec.name}: version {over} is not its current one")
    after = applied(before, spec, now=now)
    if after is before:
        return after
    written: Item = {
        "revision": after.revision,
        "version": after.version,
        "d": packed(serialization.fields_to_plain(spec)),
        "applied_at": now,
    }
    write = Write()
    write.put(
        keys.template(spec.name),
        written,
        where=ABSENT if before is None else _UNCHANGED,
        values={} if before is None else {"revision": before.revision, "version": before.version},
        refused=again(spec.name),
    )
    write.put(keys.revision(spec.name, after.revision), written)
    write.update(
        keys.counter(counters.scope_of(spec.name)),
        "SET #cap = :cap ADD #used :nothing",
        {"cap": spec.max_nodes, "nothing": 0},
    )
    write.tell(drafts.of_template(before, after, actor=actor), at=now)
    await feed.commit(write)
    return after


async def get(table: Table, name: str, revision: int | None = None) -> Template:
    if revision is None:
        return _template(await table.found(keys.template(name), "template", name))
    item = await table.found(keys.revision(name, revision), "template", f"{name}, revision {revision}")
    return _template(item)


async def current(table: Table) -> Sequence[Template]:
    return [_template(item) for item in await table.query(keys.TEMPLATES, most=10_000)]


async def current_revision(table: Table, name: str) -> int:
    """Return the current revision; 0 if there is no such template."""
    item = await table.get(keys.template(name))
    return 0 if item is None else whole(item, "revision")


async def stall_after(table: Table, name: str, revision: int) -> float | None:
    """Return how long a boot of this revision may stand still, if the revision says."""
    try:
        return (await get(table, name, revision)).spec.stall_after
    except NotFound:
        return None


def _template(item: Item) -> Template:
    applied_at = item["applied_at"]
    return Template(
        spec=_spec(item["d"]),
        revision=whole(item, "revision"),
        version=whole(item, "version" if "version" in item else "revision"),
        applied_at=float(applied_at),  # type: ignore[arg-type]  # it was written as a number
    )


@lru_cache(maxsize=256)
def _spec(data: Value) -> TemplateSpec:
    """Decode a template once: it is read for nearly every decision and seldom changes."""
    return serialization.from_plain(TemplateSpec, unpacked(data))
