"""The contract of the message port as code: every adapter runs it unchanged.

An adapter's test module subclasses `MessageContract` and gives it two fixtures: `store` (an empty one) and
`messages` (the message port over it).
"""

import pytest

from muster.domain import undelivered
from muster.domain.errors import Conflict
from muster.domain.events import Entity, Event
from muster.domain.ids import EventId
from muster.domain.undelivered import Undelivered
from muster.ports.messages import MessageStore
from muster.ports.store import Store
from tests.contracts.store_contract.bookkeeping import whole_feed


def message(number: int = 1, *, webhook: str = "ops", now: float = 10.0) -> Undelivered:
    event = Event(
        id=EventId(f"ev-{number}"),
        at=now,
        entity=Entity.NODE,
        entity_id=f"node-{number}",
        version=3,
        name="booted",
        changes={"version": 3, "labels": ["größe", None], "deep": {"at": 1.5}},
        detail="für alle",
        actor="ada",
    )
    return undelivered.wanted(webhook, event, now=now)


def tried(before: Undelivered, *, again_at: float | None) -> Undelivered:
    return undelivered.failed(before, "it answered 500", now=20.0, again_at=again_at)


class MessageContract:
    async def test_what_is_kept_comes_back_whole_by_webhook(self, messages: MessageStore) -> None:
        mine, late, other = message(1), message(2), message(1, webhook="ops-2")
        for each in (late, mine, other):
            await messages.keep_undelivered(each)
        assert list(await messages.undelivered(webhook="ops", limit=10)) == [mine, late]
        assert list(await messages.undelivered(webhook=None, limit=10)) == [other, mine, late]
        assert list(await messages.undelivered(webhook="ops", limit=1)) == [mine]
        assert list(await messages.undelivered(webhook="op", limit=10)) == []

    async def test_a_message_that_is_kept_already_stays_as_it_is(self, messages: MessageStore) -> None:
        first = message()
        await messages.keep_undelivered(first)
        await messages.write_undelivered(first, tried(first, again_at=30.0), now=20.0)
        await messages.keep_undelivered(first)
        assert list(await messages.undelivered(webhook="ops", limit=10)) == [tried(first, again_at=30.0)]

    async def test_a_write_of_a_message_that_moved_is_refused(
        self, messages: MessageStore, store: Store
    ) -> None:
        first = message()
        await messages.keep_undelivered(first)
        second = tried(first, again_at=30.0)
        await messages.write_undelivered(first, second, now=20.0)
        for after in (None, tried(first, again_at=None)):
            with pytest.raises(Conflict):
                await messages.write_undelivered(first, after, now=20.0)
        assert list(await messages.undelivered(webhook="ops", limit=10)) == [second]
        await messages.write_undelivered(second, None, now=20.0)
        assert list(await messages.undelivered(webhook=None, limit=10)) == []
        with pytest.raises(Conflict):
            await messages.write_undelivered(second, None, now=20.0)
        assert await whole_feed(store) == [], "that a message is tried or taken is no event"

    async def test_that_a_message_is_given_up_is_an_event_and_no_other_write_is(
        self, messages: MessageStore, store: Store
    ) -> None:
        refused = tried(message(1), again_at=None)
        await messages.keep_undelivered(refused)
        await messages.keep_undelivered(refused)
        waits = message(2)
        await messages.keep_undelivered(waits)
        over = tried(waits, again_at=None)
        await messages.write_undelivered(waits, over, now=20.0)
        await messages.write_undelivered(over, undelivered.sent_again(over, now=30.0), now=30.0)
        await messages.write_undelivered(refused, None, now=40.0)
        feed = await whole_feed(store)
        assert [(each.name, each.entity_id, each.at) for each in feed] == [
            ("webhook_dropped", "webhook ops", 10.0),
            ("webhook_dropped", "webhook ops", 20.0),
        ]
        assert feed[0].detail == "node.booted node-1 (ev-1): it answered 500"

    async def test_old_messages_of_any_webhook_are_pruned_in_any_state(self, messages: MessageStore) -> None:
        old, gone, edge = message(1, now=10.0), message(2, webhook="gone", now=10.9), message(3, now=11.0)
        for each in (old, tried(gone, again_at=None), edge):
            await messages.keep_undelivered(each)
        await messages.prune_undelivered(before=11.0)
        assert list(await messages.undelivered(webhook=None, limit=10)) == [edge]
