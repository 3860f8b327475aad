"""Boots: their marks while they last, how long they took in the end, and the bundles of those that failed.

Owns those items. A mark and a duration are written with the node's own write. The boots of a kind are bounded
where they are read; now and then the oldest are deleted.
"""

from collections.abc import Sequence
from itertools import groupby
from zlib import crc32

from muster.domain import serialization
from muster.domain.boot import KEPT_BOOTS, Boot, Mark
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.events import of_diagnosis
from muster.domain.ids import NodeId
from muster.domain.node import Node, NodeChange
from muster.stores.dynamodb import failures, keys
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import moment, packed, record, restored, unpacked
from muster.stores.dynamodb.writes import ABSENT, Write
from muster.stores.records import boot_of

TRIMMED_EVERY = 16
"""Boots, on average, after which those of their kind are looked through for too old ones."""


class AlreadyFiled(Exception):
    """A bundle was filed before: the first one stays."""


async def note(table: Table, write: Write, change: NodeChange) -> bool:
    """Add what a node's write says about its boot. Returns whether the oldest boots of its kind are due to
    go."""
    after = change.after
    mark = change.mark
    if mark is None:
        return False
    write.put(keys.mark(after.id, after.version), {"d": record(mark)})
    if not change.came_up or change.before is None or not change.teaches:
        return False
    # A boot's marks begin with its join.
    passed = [] if after.joined_at is None else await marks(table, after.id)
    boot = boot_of(after, [*passed, mark])
    place = moment(boot.booted_at, after.id)
    key = keys.boot(after.template, after.revision, after.instance_type, place)
    write.put(key, {"d": record(boot), "tp": keys.BOOTED, "ts": place})
    return crc32(after.id.encode()) % TRIMMED_EVERY == 0


async def bound(table: Table, node: Node) -> None:
    """Let the oldest boots of the node's kind make way."""
    partition, _ = keys.boot(node.template, node.revision, "", "")
    low, high = f"{node.instance_type}#", f"{node.instance_type}#{keys.LAST}"
    found = await table.query(partition, low=low, high=high, forward=False, most=2 * KEPT_BOOTS)
    await table.delete([(str(item["PK"]), str(item["SK"])) for item in found[KEPT_BOOTS:]])


async def marks(table: Table, node_id: NodeId) -> list[Mark]:
    partition, _ = keys.mark(node_id, 0)
    found = await table.query(partition, low="MARK#", high=f"MARK#{keys.LAST}")
    return [restored(Mark, item) for item in found]


async def of_revision(table: Table, template: str, revision: int) -> Sequence[Boot]:
    partition, _ = keys.boot(template, revision, "", "")
    found = [restored(Boot, item) for item in await table.query(partition)]
    kinds = groupby(found, key=lambda boot: boot.instance_type)
    return [boot for _, kind in kinds for boot in list(kind)[-KEPT_BOOTS:]]


async def file_bundle(feed: Feed, bundle: Bundle, *, cause: Cause) -> bool:
    write = Write()
    await failures.diagnosed(feed.table, write, bundle.node_id, cause)
    write.put(
        keys.bundle(bundle.node_id),
        {"d": packed(serialization.to_plain(bundle))},
        where=ABSENT,
        refused=lambda _item: AlreadyFiled(),
    )
    write.tell(of_diagnosis(bundle.node_id), at=bundle.collected_at)
    try:
        await feed.commit(write)
    except AlreadyFiled:
        return False
    return True


async def bundle(table: Table, node_id: NodeId) -> Bundle | None:
    item = await table.get(keys.bundle(node_id))
    return None if item is None else serialization.from_plain(Bundle, unpacked(item["d"]))
