"""The store contract, run against a store that is answered from memory by a replica alone on it.

After each write of the contract, every list from memory must be what the store itself answers. Each entry of
the table of lists has a case of its own: a write of that entity alone must bring a new answer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.diagnosis import Bundle, Cause, Section, Source
from muster.domain.events import Entity
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.commits import Written
from muster.ports.store import Store
from muster.ports.verbs import marks
from muster.stores.cache import _LISTS, CachedStore
from muster.stores.sql import SqlStore, open_sqlite
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_contract.records import EVERY_STATE, Records
from tests.contracts.test_sqlite_store import falsify
from tests.stores.ids import CountingIds
from tests.stores.test_cache import Minute

QUESTIONS: Mapping[str, Callable[[Store], Awaitable[object]]] = {
    "templates": lambda store: store.templates(),
    "nodes": lambda store: store.nodes(states=EVERY_STATE, template=None, after=None, limit=999),
    "count_nodes": lambda store: store.count_nodes(state=NodeState.TERMINATING, template="web"),
    "undiagnosed": lambda store: store.undiagnosed(limit=999),
    "launches_to_close": lambda store: store.launches_to_close(limit=999),
    "operations": lambda store: store.operations(
        kind=None, statuses=tuple(Status), run=None, after=None, limit=999
    ),
    "pool": lambda store: store.pool("web"),
    "usage": lambda store: store.usage("web"),
}
"""One for each verb that lists records from memory."""


class Cached:
    """A store in memory, what a replica alone on it keeps of it, and what its last commits wrote."""

    def __init__(self) -> None:
        self.bare = open_sqlite(":memory:", ids=CountingIds(), inline=True, after_commit=self._committed)
        self.cache = CachedStore(self.bare, Minute(), alone=True)
        self.written: set[Entity] = set()

    def _committed(self, written: Sequence[Written]) -> None:
        self.written |= {each.draft.entity for each in written}
        self.cache.saw(written)

    async def compare(self) -> None:
        """Ask each question of the cache and of the store. What moves meanwhile proves nothing."""
        for verb, ask in QUESTIONS.items():
            before = await ask(self.bare)
            kept = await ask(self.cache.as_store())
            assert kept == before or before != await ask(self.bare), f"{verb} is old"


class Compared:
    """A store from memory whose lists are compared with the store's after each write."""

    def __init__(self, cached: Cached) -> None:
        self.cached = cached

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self.cached.cache, verb)
        if not marks(Store)[verb]:
            return call

        async def compared(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call(*args, **kwargs)
            finally:
                await self.cached.compare()

        return compared


class TestCachedSqlite(StoreContract):
    @pytest.fixture
    async def fresh(self) -> AsyncIterator[Store]:
        cached = Cached()
        yield cast("Store", Compared(cached))
        await cached.bare.close()

    @pytest.fixture
    def corrupt(self) -> Callable[[Store, int], Awaitable[None]]:
        async def falsified(store: Store, by: int) -> None:
            assert isinstance(store, Compared)
            await falsify(store.cached.bare, by)

        return falsified


# --- each entry of the table of lists -------------------------------------------------------------------

Act = Callable[[], Awaitable[object]]


async def _template(records: Records) -> Act:
    return lambda: records.store.apply_template(TemplateSpec(name="web", provider="simulated"), now=2.0)


async def _node_condemned(records: Records) -> Act:
    (node,) = await records.idle(1)
    return lambda: records.store.apply(nodes.condemn(node, now=5.0, reason=Reason.OPERATOR))


async def _failure(records: Records) -> tuple[Node, Act]:
    (node,) = await records.created(await records.leased(), 1)
    change = nodes.fail(node, now=5.0, reason=Reason.BOOT_SCRIPT_FAILED, deadline_at=99.0, detail="exit 1")
    return change.after, lambda: records.store.apply(change)


async def _node_failed(records: Records) -> Act:
    _, fail = await _failure(records)
    return fail


async def _failure_diagnosed(records: Records) -> Act:
    node, fail = await _failure(records)
    await fail()
    section = Section(name=Source.CONSOLE, text="exit 1")
    bundle = Bundle(node_id=node.id, collected_at=6.0, reason=node.reason, detail="", sections=(section,))
    return lambda: records.store.file_bundle(bundle, cause=Cause.SCRIPT_FAILED)


def _end(records: Records, operation: Operation) -> Act:
    end = operations.ended(operation, Status.FAILED, now=5.0, progress=None)
    return lambda: records.store.write_operation(end, fence=operation.fence)


async def _operation_ended(records: Records) -> Act:
    """With a launch that is still open."""
    operation = await records.leased()
    await records.called(records.plan(operation), operation.fence)
    return _end(records, operation)


async def _launch_closed(records: Records) -> Act:
    """After the end of its operation."""
    operation = await records.leased()
    launch = await records.called(records.plan(operation), operation.fence)
    await _end(records, operation)()
    after = launches.abandoned(launch, now=6.0, reason=Reason.OPERATOR)
    return lambda: records.store.write_launch(launch, after, fence=None)


async def _refill_submitted(records: Records) -> Act:
    pool = await records.store.pool("web")
    return lambda: records.store.submit(records.draft(kind=Kind.REFILL), pool=pool)


async def _launch_reserved(records: Records) -> Act:
    operation = await records.leased()
    plan = records.plan(operation)
    return lambda: records.store.reserve(plan, cap=9, total_cap=9, fence=operation.fence)


async def _node_gone(records: Records) -> Act:
    (node,) = await records.idle(1)
    doomed = await records.store.apply(nodes.condemn(node, now=5.0, reason=Reason.OPERATOR))
    return lambda: records.store.apply(nodes.confirm_gone(doomed, now=6.0))


async def _counter_corrected(records: Records) -> Act:
    await records.idle(1)
    cache = records.store
    assert isinstance(cache, CachedStore) and isinstance(cache._inner, SqlStore)
    await falsify(cache._inner, 4)
    return lambda: records.store.audit(now=5.0)


WRITES: Mapping[tuple[str, Entity], Callable[[Records], Awaitable[Act]]] = {
    ("templates", Entity.TEMPLATE): _template,
    ("nodes", Entity.NODE): _node_condemned,
    ("count_nodes", Entity.NODE): _node_condemned,
    ("undiagnosed", Entity.NODE): _node_failed,
    ("undiagnosed", Entity.DIAGNOSIS): _failure_diagnosed,
    ("launches_to_close", Entity.OPERATION): _operation_ended,
    ("launches_to_close", Entity.LAUNCH): _launch_closed,
    ("operations", Entity.OPERATION): _operation_ended,
    ("pool", Entity.OPERATION): _refill_submitted,
    ("usage", Entity.NODE): _node_gone,
    ("usage", Entity.LAUNCH): _launch_reserved,
    ("usage", Entity.INSTALLATION): _counter_corrected,
}
"""What makes ready for a write that changes the verb's answer by this entity alone, and returns the write."""


def test_each_entry_of_the_table_of_lists_has_a_write_and_each_verb_a_question() -> None:
    lists = {**_LISTS, "nodes": (Entity.NODE,)}  # commits bring lists of nodes up to date
    assert {(verb, entity) for verb, entities in lists.items() for entity in entities} == set(WRITES)
    assert set(lists) == set(QUESTIONS)


@pytest.mark.parametrize(("verb", "entity"), WRITES, ids=str)
async def test_a_list_is_new_after_a_write_of_an_entity_that_it_depends_on(verb: str, entity: Entity) -> None:
    cached, ask = Cached(), QUESTIONS[verb]
    store = cached.cache.as_store()
    write = await WRITES[verb, entity](Records(store))
    before = await ask(store)
    cached.written.clear()
    await write()
    changing = {each for name, each in WRITES if name == verb}
    assert cached.written & changing == {entity}, "no other entity may do its work"
    assert await ask(cached.bare) != before
    assert await ask(store) == await ask(cached.bare)
    await cached.bare.close()
