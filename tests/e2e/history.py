"""What the event feed tells about a whole life of a data directory, and whether it may be true.

The simulation's rules are asked about what really happened: edges, bindings, caps at every moment, all or
nothing. Then the books: the feed rebuilds every record, and the counters equal the recount.
"""

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from muster.domain.events import Entity, Event
from muster.domain.template import UsageClass
from muster.stores.dynamodb import DynamoStore
from muster.stores.sql import SqlStore
from muster.system import SystemIds
from muster_simulation.cloud import Ledger
from muster_simulation.cloud.ledger import Entry
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.final_rules import check_books
from muster_simulation.invariants.folding import Record
from muster_simulation.invariants.launch_rules import LaunchRules
from muster_simulation.invariants.node_rules import NodeRules
from muster_simulation.invariants.operation_rules import OperationRules
from tests.stores.files import open_store


async def judged(database: Path) -> Context:
    """Raises Broken, or AssertionError, at the first thing that should not be."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return await judge(open_store(database, ids=SystemIds()))


async def judge(store: SqlStore | DynamoStore) -> Context:
    """Closes the store, too."""
    try:
        installation = await store.installation()
        context = Context(installation_id=installation.id, now=time.time, ledger=Ledger(), agents={})
        _replay(context, await whole_feed(store), installation.max_nodes)
        await check_books(context, store)
        assert list(await store.audit(now=time.time())) == []
    finally:
        await store.close()
    return context


async def whole_feed(store: SqlStore | DynamoStore) -> list[Event]:
    found: list[Event] = []
    cursor = None
    while True:
        page = await store.events(after=cursor, limit=1000)
        found += page.items
        if page.next is None or not page.items:
            return found
        cursor = page.next


def _replay(context: Context, events: Sequence[Event], total_cap: int) -> None:
    launches, nodes, operations = LaunchRules(context), NodeRules(context), OperationRules(context)
    launches.total_cap = total_cap
    for event in events:
        assert event.name != "counter_drift", event
        before, after = context.records.fold(event)
        match event.entity:
            case Entity.NODE if event.version > 0:
                _physically(context, before, after)
                nodes.check(event, before, after)
            case Entity.LAUNCH:
                launches.check(event, before, after)
            case Entity.OPERATION:
                operations.check(event, before, after)
            case Entity.TEMPLATE:
                launches.template(after)
            case _:
                pass


def _physically(context: Context, before: Record | None, after: Record) -> None:
    """The ledger as it must have been: the rules ask it about machines."""
    if before is None:
        launch = context.records.launches.get(after["launch_id"] or "", {})
        context.ledger.add(
            Entry(
                machine_id=after["machine_id"],
                installation_id=context.installation_id,
                token=str(launch.get("token", "")),
                template=after["template"],
                instance_type=after["instance_type"],
                usage_class=UsageClass(after["usage_class"]),
                sent_at=0.0,
                created_at=after["created_at"],
                running_at=after["created_at"],
                visible_at=after["created_at"],
            )
        )
    if after["state"] == "terminated":
        entry = context.ledger.get(after["machine_id"])
        assert entry is not None
        context.ledger.close(entry, now=after["entered_at"], cause="terminated")
