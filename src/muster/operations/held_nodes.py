"""List the nodes that are kept for a look: who asked, until when, and what they take of the caps."""

from collections.abc import Sequence

from muster.domain.errors import NotFound
from muster.domain.ids import OperationId
from muster.domain.lifecycle import Fact, Verb
from muster.domain.node import Node
from muster.domain.overview import HeldNode, Pools
from muster.domain.run_decisions import run_of
from muster.operations.concurrency import concurrently
from muster.ports.store import Store

SHOWN = 20
_EVENTS_MOST = 50
_KEPT_BY = (Fact.HELD.value, Verb.EXTEND.value)


async def held_nodes(store: Store, nodes: Sequence[Node], pools: Pools) -> tuple[HeldNode, ...]:
    """Return those of the nodes that are kept for a look, the one that ends first at the front. Who keeps a
    node is looked up for the first few."""
    held = sorted((each for each in nodes if each.held), key=lambda each: (each.deadline_at or 0.0, each.id))
    names = await concurrently(_keeper(store, each) for each in held[:SHOWN])
    caps = {pool.template.name: (pool.used, pool.template.spec.max_nodes) for pool in pools.items}
    found = []
    for number, node in enumerate(held):
        used, most = caps.get(node.template, (0, 0))
        found.append(
            HeldNode(node=node, by=names[number] if number < len(names) else "", used=used, max_nodes=most)
        )
    return tuple(found)


async def _keeper(store: Store, node: Node) -> str:
    """Return who keeps the node: who held or extended it last, else who asked for its operation. Empty: not
    known."""
    for event in reversed((await store.last_events(limit=_EVENTS_MOST, entity_id=node.id)).items):
        if event.name in _KEPT_BY and event.actor:
            return event.actor
    if node.operation_id is None:
        return ""
    try:
        provision = await store.operation(node.operation_id)
    except NotFound:
        return ""
    return await _asker(store, run_of(provision.idempotency_key) or provision.id)


async def _asker(store: Store, operation_id: OperationId) -> str:
    first = (await store.events(after=None, limit=1, entity_id=operation_id)).items
    return first[0].actor if first else ""
