"""What a webhook sends when, in virtual time: order, repeats, what waits, and what is given up."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import cast

import pytest

from muster.controllers.upkeep import Pruner
from muster.domain import undelivered
from muster.domain.errors import NotFound
from muster.domain.observations import DAY, HOUR
from muster.domain.settings import Settings
from muster.domain.undelivered import Undelivered
from muster.integrations.webhooks import follower
from muster.integrations.webhooks.follower import Follower
from muster.integrations.webhooks.receiver import NotDelivered, Receiver
from muster.integrations.webhooks.tables import Webhook
from muster.operations.operator_desk import OperatorDesk
from muster.ports.paging import every_undelivered
from muster.stores import cursors
from tests.contracts.message_contract import message
from tests.harness import Harness, with_harness
from tests.harness.github import context

HOOK = Webhook(name="ops", url="http://127.0.0.1:1/", events=("*",))
AWAY = NotDelivered("127.0.0.1 answered 500", passing=True)
REFUSED = NotDelivered("127.0.0.1 answered 404", passing=False)


class Inbox:
    """A receiver that takes what it is not told to refuse."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.tries: list[str] = []
        self.refuses: Callable[[str], NotDelivered | None] = lambda _detail: None
        self.pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)

    async def send(self, _message_id: str, body: bytes, *, now: float) -> None:
        detail = json.loads(body)["data"]["event"]["detail"]
        self.tries.append(detail)
        await self.pause()
        error = self.refuses(detail)
        if error is not None:
            raise error
        self.taken.append(detail)

    async def close(self) -> None:
        """Nothing is open."""


async def follows(harness: Harness, inbox: Inbox) -> Callable[[], bool]:
    """A follower that has its place in the feed. Returns what ends it."""
    given = context(harness)
    assert await harness.store.lease_duty(
        "webhook ops", given.owner, now=harness.now, until=harness.now + DAY
    )
    made = Follower(given, HOOK, "https://m.example", connect=lambda _hook: cast(Receiver, inbox))
    task = asyncio.create_task(made.perform(lambda: True))
    harness.keep(task)
    await harness.until(lambda: _placed(harness))
    return task.cancel


async def _placed(harness: Harness) -> bool:
    return await harness.store.bookmark("webhook ops") is not None


async def happen(harness: Harness, *said: str) -> None:
    """Let things happen: `a1` is about the thing a."""
    for each in said:
        await harness.store.note(f"thing-{each[0]}", "happened", reason=None, detail=each, now=harness.now)


async def kept(harness: Harness) -> dict[str, Undelivered]:
    return {each.event.detail: each async for each in every_undelivered(harness.store.messages, "ops")}


@with_harness
async def test_a_message_that_is_never_taken_holds_up_what_is_about_the_same_thing_alone(
    harness: Harness,
) -> None:
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail == "a1" else None
    await follows(harness, inbox)
    await happen(harness, "a1", "b1", "a2", "b2", "c1")
    await harness.pass_time(30.0)
    await happen(harness, "a3", "b3")
    await harness.pass_time(30.0)
    assert sorted(inbox.taken) == ["b1", "b2", "b3", "c1"]
    assert inbox.tries.count("a1") > 3 and not {"a2", "a3"} & {*inbox.tries}
    assert {name: each.problem for name, each in (await kept(harness)).items()} == {
        "a1": "127.0.0.1 answered 500",
        "a2": "an earlier message about the same thing waits",
        "a3": "an earlier message about the same thing waits",
    }
    inbox.refuses = lambda _detail: None
    await harness.pass_time(follower.PAUSE_MOST * 2)
    assert inbox.taken[4:] == ["a1", "a2", "a3"]
    assert await kept(harness) == {}


@with_harness
async def test_a_webhook_begins_at_the_end_of_the_feed_and_the_next_replica_where_it_stopped(
    harness: Harness,
) -> None:
    first, second = Inbox(), Inbox()
    await happen(harness, "z1")
    end = await follows(harness, first)
    await happen(harness, "a1", "b1")
    await harness.pass_time(10.0)
    end()
    await happen(harness, "c1")
    await follows(harness, second)
    await harness.pass_time(10.0)
    assert (sorted(first.taken), second.taken) == (["a1", "b1"], ["c1"])


@with_harness
async def test_a_webhook_whose_place_was_lost_with_the_feed_goes_on_at_its_end(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, lost = Inbox(), cursors.encode("events", 10_000, harness.now)
    end = await follows(harness, inbox)
    end()
    await harness.store.move_bookmark("webhook ops", context(harness).owner, lost)
    await happen(harness, "a1")
    await follows(harness, inbox)
    await harness.pass_time(10.0)
    await happen(harness, "a2")
    await harness.pass_time(10.0)
    assert inbox.taken == ["a2"]
    assert "the feed was replaced; a webhook goes on at its end" in caplog.messages


@with_harness
async def test_messages_about_one_thing_keep_their_order_while_each_takes_its_time(harness: Harness) -> None:
    inbox = Inbox()
    inbox.pause = lambda: harness.clock.sleep(5.0)
    await follows(harness, inbox)
    await happen(harness, *(f"{thing}{number}" for number in range(1, 5) for thing in "abc"))
    await harness.pass_time(60.0)
    for thing in "abc":
        assert [each for each in inbox.taken if each[0] == thing] == [f"{thing}{n}" for n in range(1, 5)]


@with_harness
async def test_pauses_between_tries_grow_and_stay_under_their_limit(harness: Harness) -> None:
    inbox, times = Inbox(), list[float]()

    def refuses(_detail: str) -> NotDelivered:
        times.append(harness.now)
        return AWAY

    inbox.refuses = refuses
    await follows(harness, inbox)
    await happen(harness, "a1")
    await harness.pass_time(2 * 3600.0)
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert pauses[0] <= 2 * follower.PAUSE + 2 * follower.LOOK_EVERY
    assert follower.PAUSE_MOST / 2 < max(pauses) <= follower.PAUSE_MOST * 1.5 + follower.LOOK_EVERY
    assert len(times) < 40


@with_harness
async def test_a_receiver_says_how_long_to_wait_before_the_next_try(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda _detail: NotDelivered("it answered 429", passing=True, retry_after=1000.0)
    await follows(harness, inbox)
    await happen(harness, "a1")
    await harness.pass_time(990.0)
    assert inbox.tries == ["a1"]
    await harness.pass_time(20.0)
    assert inbox.tries == ["a1", "a1"]


@with_harness
async def test_after_a_day_a_message_is_given_up_the_next_goes_on_and_an_operator_sends_it_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undelivered, "GIVE_UP_AFTER", 3 * HOUR)  # a day of virtual time takes too long
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail == "a1" else None
    await follows(harness, inbox)
    await happen(harness, "a1", "a2")
    await harness.pass_time(3 * HOUR - follower.PAUSE_MOST)
    assert inbox.taken == []
    await harness.pass_time(4 * follower.PAUSE_MOST)
    assert "a2" in inbox.taken
    over = (await kept(harness))["a1"]
    assert over.given_up and over.problem == "127.0.0.1 answered 500; it was tried for a day"
    (told,) = await harness.events(name="webhook_dropped")
    assert (told.entity_id, over.event.id in told.detail) == ("webhook ops", True)
    assert "webhook_dropped" not in "".join(inbox.taken), "of that no message is sent"

    inbox.refuses = lambda _detail: None
    desk = OperatorDesk(harness.ports)
    with pytest.raises(NotFound, match="webhook"):
        await desk.resend("other", [], actor="ada")
    assert await desk.resend("ops", ["ops.ev-none"], actor="ada") == []
    (sent,) = await desk.resend("ops", [over.id], actor="ada")
    assert sent.id == over.id
    await harness.pass_time(10.0)
    assert "a1" in inbox.taken and await kept(harness) == {}
    (told,) = await harness.events(name="webhook_resent")
    assert told.actor == "ada"


@with_harness
async def test_a_refused_message_is_given_up_at_once_and_can_be_forgotten(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda detail: REFUSED if detail == "a1" else AWAY if detail == "b1" else None
    await follows(harness, inbox)
    await happen(harness, "a1", "a2", "b1")
    await harness.pass_time(10.0)
    assert inbox.taken[:1] == ["a2"] and inbox.tries.count("a1") == 1
    found = await kept(harness)
    assert {name: each.given_up for name, each in found.items()} == {"a1": True, "b1": False}
    desk = OperatorDesk(harness.ports)
    with pytest.raises(NotFound, match="given up"):
        await desk.forget("ops", [found["b1"].id])
    assert [each.id for each in await desk.forget("ops", actor="ada")] == [found["a1"].id]
    assert list(await kept(harness)) == ["b1"]
    (told,) = await harness.events(name="webhook_forgotten")
    assert told.actor == "ada"


@with_harness
async def test_a_receiver_that_is_away_fills_the_list_and_then_nothing_is_read_and_nothing_is_lost(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 5)
    inbox = Inbox()
    inbox.refuses = lambda _detail: AWAY
    await follows(harness, inbox)
    said = [f"{thing}1" for thing in "abcdefghijkl"]
    await happen(harness, *said)
    await harness.pass_time(3600.0)
    assert sorted(await kept(harness)) == said[:5]
    inbox.refuses = lambda _detail: None
    await harness.pass_time(2 * follower.PAUSE_MOST)
    assert sorted({*inbox.taken}) == said
    assert await kept(harness) == {}


@with_harness
async def test_when_a_receiver_is_back_all_that_waits_is_sent_at_once(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda _detail: AWAY
    await follows(harness, inbox)
    said = [f"{thing}1" for thing in "abcdefghijkl"]
    await happen(harness, *said)
    await harness.pass_time(3600.0)
    inbox.refuses = lambda _detail: None
    await happen(harness, "z1")
    await harness.pass_time(15.0)
    assert sorted(inbox.taken) == [*said, "z1"]


@with_harness
async def test_only_the_newest_of_what_was_given_up_stays(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "GIVEN_UP_MOST", 3)
    inbox = Inbox()
    inbox.refuses = lambda _detail: REFUSED
    await follows(harness, inbox)
    for each in ("a1", "b1", "c1", "d1", "e1"):
        await happen(harness, each)
        await harness.pass_time(10.0)
    assert sorted(await kept(harness)) == ["c1", "d1", "e1"]
    assert len(await harness.events(name="webhook_dropped")) == 5, "the feed tells of each"


@with_harness
async def test_a_replica_that_takes_over_goes_on_with_all_that_waits(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail == "a1" else None
    end = await follows(harness, inbox)
    await happen(harness, "a1", "a2")
    await harness.pass_time(10.0)
    end()
    await happen(harness, "b1")
    inbox.refuses = lambda _detail: None
    await follows(harness, inbox)
    await harness.pass_time(60.0)
    assert [each for each in inbox.taken if each != "b1"] == ["a1", "a2"] and "b1" in inbox.taken


@with_harness
async def test_a_resend_to_a_receiver_that_refuses_all_makes_no_further_message(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda _detail: REFUSED
    await follows(harness, inbox)
    said = {f"{thing}1" for thing in "abcdefgh"}
    await happen(harness, *said)
    await harness.pass_time(30.0)
    desk = OperatorDesk(harness.ports)
    for _ in range(2):
        assert {each.event.detail for each in await desk.resend("ops", actor="ada")} == said
        await harness.pass_time(30.0)
        assert {name: each.given_up for name, each in (await kept(harness)).items()} == dict.fromkeys(
            said, True
        )
    assert len(await desk.forget("ops", actor="ada")) == 8
    await harness.pass_time(30.0)
    assert {*inbox.tries} == said and await kept(harness) == {}
    for name, acts in (("webhook_resent", 2), ("webhook_forgotten", 1)):
        told = await harness.events(name=name)
        assert [(each.entity_id, each.detail, each.actor) for each in told] == [
            ("webhook ops", "8 messages", "ada")
        ] * acts


@with_harness
async def test_the_pruner_forgets_what_is_older_than_a_week_also_of_a_webhook_that_is_gone(
    harness: Harness,
) -> None:
    now = harness.now
    for each in (
        message(1, webhook="gone", now=now - undelivered.KEPT - 1.0),
        message(2, now=now - undelivered.KEPT - 1.0),
        message(3, now=now),
    ):
        await harness.store.messages.keep_undelivered(each)
    await Pruner(harness.ports, Settings()).reconcile()
    page = await harness.store.messages.undelivered(webhook=None, limit=10)
    assert [each.event.id for each in page.items] == ["ev-3"]


@with_harness
async def test_a_receiver_that_asks_for_a_pause_gets_nothing_until_then_and_then_all_in_order(
    harness: Harness,
) -> None:
    inbox = Inbox()
    inbox.refuses = lambda _detail: NotDelivered("it answered 429", passing=True, retry_after=600.0)
    await follows(harness, inbox)
    said = [f"{thing}{number}" for number in (1, 2) for thing in "abcdefghijklmnopqrst"]
    await happen(harness, *said)
    await harness.pass_time(5.0)
    first = len(inbox.tries)
    assert 1 <= first <= follower.AT_ONCE
    for number in range(3, 8):
        await happen(harness, f"a{number}", f"z{number}")
        await harness.pass_time(110.0)
    assert len(inbox.tries) == first
    inbox.refuses = lambda _detail: None
    await harness.pass_time(120.0)
    assert len(inbox.taken) == len(said) + 10 and await kept(harness) == {}
    for thing in "abtz":
        mine = [each for each in inbox.taken if each[0] == thing]
        assert mine == sorted(mine)


@with_harness
async def test_a_message_that_is_refused_beside_healthy_traffic_keeps_its_pauses(harness: Harness) -> None:
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail == "p1" else None
    await follows(harness, inbox)
    await happen(harness, "p1")
    await harness.pass_time(follower.PAUSE_MOST * 4)
    before = len(inbox.tries)
    for _ in range(20):
        await happen(harness, "b1")
        await harness.pass_time(follower.AWAY + 10.0)
    assert inbox.taken == ["b1"] * 20
    assert inbox.tries[before:].count("p1") <= 6, "four pauses of about ten minutes, and one for the start"


@with_harness
async def test_a_follower_that_begins_while_the_receiver_is_away_sends_all_at_once_when_it_is_back(
    harness: Harness,
) -> None:
    inbox = Inbox()
    inbox.refuses = lambda _detail: AWAY
    end = await follows(harness, inbox)
    said = [f"{thing}1" for thing in "abcdefgh"]
    await happen(harness, *said)
    await harness.pass_time(2 * HOUR)
    end()
    await follows(harness, inbox)
    await harness.pass_time(follower.AWAY + 10.0)
    inbox.refuses = lambda _detail: None
    await happen(harness, "z1")
    await harness.pass_time(10.0)
    assert sorted(inbox.taken) == [*said, "z1"]


def states(found: dict[str, Undelivered]) -> tuple[list[str], list[str]]:
    """What was given up, and what waits."""
    over = sorted(name for name, each in found.items() if each.given_up)
    return over, sorted({*found} - {*over})


def series(things: str, count: int) -> list[str]:
    return [f"{thing}{number:02}" for number in range(1, count + 1) for thing in things]


@with_harness
async def test_one_thing_whose_messages_are_never_taken_leaves_room_for_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 8)
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail[0] == "a" else None
    await follows(harness, inbox)
    said = series("a", 14)
    await happen(harness, *said, "b1", "c1")
    await harness.pass_time(120.0)
    assert {*inbox.taken} == {"b1", "c1"}
    found = await kept(harness)
    over, waits = states(found)
    assert (over, waits) == (said[:6], said[6:]), "the first are given up, and none is lost"
    assert found["a01"].problem == "127.0.0.1 answered 500; it gave way to other messages"
    assert len(await harness.events(name="webhook_dropped")) == len(over)
    inbox.refuses = lambda _detail: None
    await harness.pass_time(2 * follower.PAUSE_MOST)
    assert inbox.taken[-8:] == waits, "in order"


@with_harness
async def test_things_that_are_never_taken_share_the_list_and_hold_up_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 20)
    inbox = Inbox()
    inbox.refuses = lambda detail: AWAY if detail[0] in "abcde" else None
    await follows(harness, inbox)
    said = [*series("a", 12), *series("bcde", 6)]
    await happen(harness, *said)
    await harness.pass_time(300.0)
    assert (inbox.taken, len(await kept(harness))) == ([], 20), (
        "it could as well be away: all are in the feed"
    )
    for number in range(10):
        await happen(harness, f"z{number}")
        await harness.pass_time(15.0)
    assert sorted({*inbox.taken}) == [f"z{number}" for number in range(10)]
    over, waits = states(await kept(harness))
    assert sorted([*over, *waits]) == sorted(said)
    assert waits == sorted(
        f"{thing}{number:02}"
        for thing, last in zip("abcde", (12, 6, 6, 6, 6), strict=True)
        for number in range(last - 3, last + 1)
    )
    assert len(await harness.events(name="webhook_dropped")) == len(over)


@with_harness
async def test_a_follower_that_begins_with_a_full_list_finds_what_the_receiver_takes(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 4)
    monkeypatch.setattr(follower, "PAGE", 3)
    inbox = Inbox()
    inbox.refuses = lambda detail: None if detail[0] in "yz" else AWAY
    end = await follows(harness, inbox)
    await happen(harness, *series("abcd", 1), *series("a", 7)[1:], "e1", "f1", "g1")
    await harness.pass_time(HOUR)
    assert len(states(await kept(harness))[1]) == 4
    end()
    await happen(harness, "y1")
    await follows(harness, inbox)
    await harness.pass_time(60.0)
    assert {*inbox.taken} == {"y1"}, "past what waits, and past what is refused too"
    await happen(harness, "z1")
    await harness.pass_time(300.0)
    assert {*inbox.taken} == {"y1", "z1"}
    assert {*await kept(harness)} == {*series("abcd", 1), *series("a", 7), "e1", "f1", "g1"}


@with_harness
async def test_while_the_receiver_is_away_nothing_gives_way(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 6)
    inbox = Inbox()
    inbox.refuses = lambda _detail: AWAY
    end = await follows(harness, inbox)
    said = series("abc", 10)
    await happen(harness, *said, "z1")
    await harness.pass_time(HOUR)
    assert len(await kept(harness)) == 6
    end()
    await follows(harness, inbox)
    await harness.pass_time(follower.AWAY / 2)
    inbox.refuses = lambda _detail: None
    await harness.pass_time(HOUR)
    for thing in "abc":
        assert [each for each in inbox.taken if each[0] == thing] == [
            each for each in said if each[0] == thing
        ]
    assert await harness.events(name="webhook_dropped") == []


@with_harness
async def test_a_receiver_that_is_away_is_probed_with_growing_pauses(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "WAITING_MOST", 1)
    inbox, times = Inbox(), list[float]()

    def refuses(detail: str) -> NotDelivered:
        if detail != "a1":
            times.append(harness.now)
        return AWAY

    inbox.refuses = refuses
    await follows(harness, inbox)
    await happen(harness, "a1", "b1", "c1", "d1")
    await harness.pass_time(4 * HOUR)
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert pauses[0] <= 3 * follower.LOOK_EVERY
    assert follower.PAUSE_MOST <= max(pauses) <= follower.PAUSE_MOST + 3 * follower.LOOK_EVERY
    assert {*inbox.tries} == {"a1", "b1", "c1", "d1"}, "no other is left out for ever"
    inbox.refuses = lambda _detail: NotDelivered("it answered 429", passing=True, retry_after=HOUR)
    await harness.pass_time(2 * follower.PAUSE_MOST)
    before = len(inbox.tries)
    await harness.pass_time(HOUR / 2)
    assert len(inbox.tries) == before
