"""Promises about the end: everything was given back, all is calm; nothing is left and the books are right."""

from muster.domain import serialization
from muster.domain.errors import NotFound
from muster.domain.events import LEASE_FIELDS
from muster.domain.ids import LaunchId, NodeId, OperationId
from muster.ports.store import Store
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record


def remains(context: Context) -> str:
    """What is still there, in words; empty when everything has come to its end."""
    records = context.records
    ours = [entry for entry in context.ledger.live() if entry.installation_id == context.installation_id]
    for what, left in (
        ("operations", [records.operations[each] for each in records.unfinished]),
        ("launches", [records.launches[each] for each in records.open]),
        ("nodes", [records.nodes[each] for each in records.live]),
        ("machines", ours),
    ):
        if left:
            return f"{len(left)} {what}, the first is {left[0]}"
    return ""


async def check_books(context: Context, store: Store) -> None:
    """The feed rebuilds every record, and the counters equal the recount."""
    records = context.records
    for node_id, node in records.nodes.items():
        try:
            stored = serialization.fields_to_plain(await store.node(NodeId(node_id)))
        except NotFound:
            _pruned("node", node_id, done=node["state"] == "terminated")
            continue
        _compare("node", node_id, node, stored)
    for launch_id, launch in records.launches.items():
        try:
            stored = serialization.fields_to_plain(await store.launch(LaunchId(launch_id)))
        except NotFound:
            _pruned("launch", launch_id, done=launch["closed_at"] is not None)
            continue
        _compare("launch", launch_id, launch, stored)
    for operation_id, operation in records.operations.items():
        try:
            stored = serialization.fields_to_plain(await store.operation(OperationId(operation_id)))
        except NotFound:
            _pruned("operation", operation_id, done=operation["ended_at"] is not None)
            continue
        for field in LEASE_FIELDS:
            stored.pop(field)
        _compare("operation", operation_id, operation, stored)
    await check_counters(context, store)


async def check_counters(context: Context, store: Store) -> None:
    records = context.records
    for name in records.current:
        usage = await store.usage(name)
        counted = records.recorded.get(name, 0)
        if (usage.template, usage.total) != (counted, records.total):
            raise Broken(
                "counters_equal_the_recount",
                f"{name}: stored {usage.template} and {usage.total}, counted {counted} and {records.total}",
            )


def _pruned(kind: str, name: str, *, done: bool) -> None:
    if not done:
        raise Broken("records_are_kept", f"{kind} {name} is missing and had not ended")


def _compare(kind: str, name: str, folded: Record, stored: dict[str, serialization.Plain]) -> None:
    if folded != stored:
        differing = {
            key: (folded.get(key), stored.get(key))
            for key in dict.fromkeys([*folded, *stored])
            if folded.get(key) != stored.get(key)
        }
        raise Broken("the_feed_rebuilds_the_state", f"{kind} {name} differs (feed, store): {differing}")
