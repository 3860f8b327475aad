"""The contract of the message port as code: every adapter runs it unchanged.

An adapter's test module subclasses `MessageContract` and gives it two fixtures: `store` (an empty one) and
`messages` (the message port over it).
"""

from dataclasses import replace

import pytest

from muster.domain import undelivered
from muster.domain.errors import Conflict, InvalidRequest
from muster.domain.events import Entity, Event
from muster.domain.ids import EventId
from muster.domain.undelivered import BEHIND, Backlog, Undelivered
from muster.ports.messages import MessageStore
from muster.ports.paging import items
from muster.ports.store import Cursor, Store
from tests.contracts.store_contract.bookkeeping import whole_feed

LIMIT = 5
"""Of a page."""


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


async def kept(messages: MessageStore, *, webhook: str | None = "ops", limit: int = 10) -> list[Undelivered]:
    """All pages of so many."""
    return [
        each
        async for each in items(lambda after: messages.undelivered(webhook=webhook, after=after, limit=limit))
    ]


class MessageContract:
    async def test_what_is_kept_comes_back_whole_by_webhook(self, messages: MessageStore) -> None:
        mine, late, other = message(1), message(2), message(1, webhook="ops-2")
        for each in (late, mine, other):
            await messages.keep_undelivered(each)
        assert await kept(messages) == [mine, late]
        assert await kept(messages, webhook=None) == [other, mine, late]
        assert await kept(messages, webhook="op") == []

    async def test_a_message_that_is_kept_already_stays_as_it_is(self, messages: MessageStore) -> None:
        first = message()
        await messages.keep_undelivered(first)
        await messages.write_undelivered(first, tried(first, again_at=30.0))
        await messages.keep_undelivered(first)
        assert await kept(messages) == [tried(first, again_at=30.0)]

    async def test_a_write_of_a_message_that_moved_is_refused(
        self, messages: MessageStore, store: Store
    ) -> None:
        first = message()
        await messages.keep_undelivered(first)
        second = tried(first, again_at=30.0)
        await messages.write_undelivered(first, second)
        for after in (None, tried(first, again_at=None)):
            with pytest.raises(Conflict):
                await messages.write_undelivered(first, after)
        assert await kept(messages) == [second]
        await messages.write_undelivered(second, None)
        assert await kept(messages, webhook=None) == []
        with pytest.raises(Conflict):
            await messages.write_undelivered(second, None)
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
        await messages.write_undelivered(waits, over)
        await messages.write_undelivered(over, undelivered.sent_again(over, now=30.0))
        await messages.write_undelivered(refused, None)
        feed = await whole_feed(store)
        assert [(each.name, each.entity_id, each.at) for each in feed] == [
            ("webhook_dropped", "webhook ops", 20.0),
            ("webhook_dropped", "webhook ops", 20.0),
        ]
        assert feed[0].detail == "node.booted node-1 (ev-1): it answered 500"

    async def test_old_messages_of_any_webhook_are_pruned_in_any_state(self, messages: MessageStore) -> None:
        old, gone, edge = message(1, now=10.0), message(2, webhook="gone", now=10.9), message(3, now=11.0)
        for each in (old, tried(gone, again_at=None), edge):
            await messages.keep_undelivered(each)
        await messages.prune_undelivered(before=11.0)
        assert await kept(messages, webhook=None) == [edge]

    @pytest.mark.parametrize("count", [LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT])
    async def test_a_list_goes_on_to_its_end(self, messages: MessageStore, count: int) -> None:
        mine = sorted((message(number) for number in range(count)), key=lambda each: each.id)
        others = [message(number, webhook=name) for number in range(1, LIMIT) for name in ("op", "ops-2")]
        for each in (*mine, *others):
            await messages.keep_undelivered(each)
        assert await kept(messages, limit=LIMIT) == mine
        assert await kept(messages, webhook=None, limit=LIMIT) == sorted(
            [*mine, *others], key=lambda each: each.id
        )
        page = await messages.undelivered(webhook="ops", limit=LIMIT)
        assert (len(page.items), page.next is None) == (min(count, LIMIT), count <= LIMIT)

    async def test_a_list_goes_on_where_it_was_also_when_that_message_is_gone(
        self, messages: MessageStore
    ) -> None:
        first, second, third = (message(number) for number in (1, 2, 3))
        for each in (first, second, third):
            await messages.keep_undelivered(each)
        page = await messages.undelivered(webhook="ops", limit=1)
        await messages.write_undelivered(first, None)
        page = await messages.undelivered(webhook="ops", after=page.next, limit=1)
        assert list(page.items) == [second]
        with pytest.raises(InvalidRequest):
            await messages.undelivered(webhook="ops", after=Cursor("nonsense"), limit=1)

    async def test_each_webhook_has_its_counts_its_oldest_and_why(self, messages: MessageStore) -> None:
        assert list(await messages.backlogs()) == []
        late, early = replace(message(1), since=12.0), replace(message(2), problem="it is away")
        over = [
            undelivered.failed(message(number), f"it answered {number}", now=at, again_at=None)
            for number, at in ((3, 31.0), (4, 33.0), (5, 32.0))
        ]
        gone = undelivered.failed(message(1, webhook="chat"), "it answered 410", now=14.0, again_at=None)
        for each in (late, early, *over, gone, message(1, webhook="a")):
            await messages.keep_undelivered(each)
        fresh, chat, ops = await messages.backlogs()
        assert fresh == Backlog(
            webhook="a", waiting=1, given_up=0, oldest_since=10.0, given_up_at=None, problem=BEHIND
        )
        assert chat == Backlog(
            webhook="chat",
            waiting=0,
            given_up=1,
            oldest_since=None,
            given_up_at=14.0,
            problem="it answered 410",
        )
        assert ops == Backlog(
            webhook="ops",
            waiting=2,
            given_up=3,
            oldest_since=10.0,
            given_up_at=33.0,
            problem="it is away",
        )
        for each in (late, early):
            await messages.write_undelivered(each, None)
        await messages.write_undelivered(over[1], undelivered.sent_again(over[1], now=40.0))
        await messages.write_undelivered(undelivered.sent_again(over[1], now=40.0), None)
        (ops,) = (each for each in await messages.backlogs() if each.webhook == "ops")
        assert (ops.waiting, ops.given_up, ops.given_up_at, ops.problem) == (0, 2, 32.0, "it answered 5")

    @pytest.mark.parametrize("count", [LIMIT - 1, LIMIT, LIMIT + 1])
    async def test_counts_stop_at_no_page(self, messages: MessageStore, count: int) -> None:
        for number in range(count):
            await messages.keep_undelivered(message(number))
            await messages.keep_undelivered(tried(message(number, webhook="chat"), again_at=None))
        chat, ops = await messages.backlogs()
        assert (chat.waiting, chat.given_up, ops.waiting, ops.given_up) == (0, count, count, 0)
