import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from muster.domain.errors import NotFound
from muster.domain.ids import NodeId
from muster.domain.template import TemplateSpec
from muster.stores.sql import open_sqlite
from tests.contracts.store_contract.records import Records
from tests.stores.ids import CountingIds

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not suspend."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("it suspended")


def test_an_inline_store_never_suspends_and_starts_no_thread() -> None:
    before = set(threading.enumerate())
    store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
    records = Records(store)
    at_once(store.apply_template(TemplateSpec(name="web", provider="simulated"), now=1.0))
    at_once(records.idle(3))
    operation = at_once(records.leased())
    assert len(at_once(records.claim(operation, 2))) == 2
    assert len(at_once(store.view(operation.id)).nodes) == 2
    with pytest.raises(NotFound):
        at_once(store.node(NodeId("node-x")))
    assert at_once(store.events(after=None, limit=500)).items
    assert set(threading.enumerate()) <= before, "threads of other tests may end meanwhile"
    at_once(store.close())


def test_two_inline_stores_with_the_same_calls_hold_the_same() -> None:
    dumps = []
    for _ in range(2):
        store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
        records = Records(store)
        at_once(records.idle(5))
        at_once(records.claim(at_once(records.leased()), 3))
        dumps.append(at_once(store.events(after=None, limit=500)))
        at_once(store.close())
    assert dumps[0] == dumps[1]
