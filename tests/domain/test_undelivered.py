"""When an undelivered message is sent again, what waits behind it, and when it is given up."""

from dataclasses import replace

import pytest

from muster.domain import undelivered
from muster.domain.events import Entity, Event
from muster.domain.ids import EventId
from muster.domain.operation import ENDED, Status
from muster.domain.undelivered import GIVE_UP_AFTER, REFUSED_TRIES, Undelivered
from tests.domain.builders import NOW


def message(
    number: int = 1, *, thing: str = "a", version: int = 0, due_at: float | None = NOW
) -> Undelivered:
    event = Event(
        id=EventId(f"ev-{number}"),
        at=NOW + number,
        entity=Entity.NODE,
        entity_id=thing,
        version=version or number,
        name="booted",
        changes={},
    )
    return replace(undelivered.wanted("ops", event, now=NOW), due_at=due_at)


def due(*messages: Undelivered, now: float = NOW, woken_at: float = 0.0) -> list[str]:
    return [each.event.id for each in undelivered.due(messages, now=now, woken_at=woken_at)]


def test_a_message_is_due_at_its_time_and_never_once_it_is_given_up() -> None:
    assert due(message(due_at=NOW)) == ["ev-1"]
    assert due(message(due_at=NOW + 0.1)) == []
    assert due(message(due_at=None), now=NOW + GIVE_UP_AFTER) == []


def test_of_each_thing_the_first_that_is_not_given_up_goes_first_in_any_order_of_the_list() -> None:
    first, second, other = message(9), message(10), message(11, thing="b")
    assert due(second, other, first) == ["ev-9", "ev-11"]
    assert due(first, second, other) == ["ev-9", "ev-11"]
    assert due(second, replace(first, due_at=NOW + 1)) == [], "the second waits behind the first"
    assert due(second, replace(first, due_at=None)) == ["ev-10"]
    anew = message(12, version=1)
    assert due(anew, first) == ["ev-9"], "the place in the feed says which is first: versions begin anew"
    early = replace(second, event=replace(second.event, at=NOW - 60))
    assert due(early, first) == ["ev-9"], "clocks of replicas differ"


def test_when_the_receiver_is_back_what_was_tried_before_is_due() -> None:
    tried = undelivered.failed(message(), "500", now=NOW + 5, again_at=NOW + 600)
    assert due(tried, now=NOW + 10, woken_at=NOW + 5) == []
    assert due(tried, now=NOW + 10, woken_at=NOW + 5.1) == ["ev-1"]


@pytest.mark.parametrize(("later", "over"), [(0.0, False), (0.1, True)])
def test_a_message_is_given_up_at_the_first_try_after_its_time(later: float, over: bool) -> None:
    now = NOW + GIVE_UP_AFTER + later
    after = undelivered.failed(message(), "it answered 500", now=now, again_at=now + 600)
    assert (after.given_up, after.tries, after.tried_at) == (over, 1, now)
    assert after.problem == ("it answered 500; it was tried for a day" if over else "it answered 500")


def test_a_person_gives_a_message_another_day() -> None:
    over = undelivered.failed(message(), "no", now=NOW + 5, again_at=None)
    assert (over.given_up_at, over.version) == (NOW + 5, 2)
    again = undelivered.sent_again(over, now=NOW + 9)
    assert (again.given_up, again.since, again.due_at, again.tries) == (False, NOW + 9, NOW + 9, 0)
    assert (again.given_up_at, again.version) == (None, 3)


def test_a_message_that_waits_is_written_anew_by_each_try_and_each_pause() -> None:
    tried = undelivered.failed(message(), "it answered 500", now=NOW + 5, again_at=NOW + 9)
    assert (tried.version, tried.due_at, tried.given_up_at) == (2, NOW + 9, None)
    later = undelivered.postponed(tried, until=NOW + 60)
    assert (later.version, later.due_at, later.tries) == (3, NOW + 60, 1)
    assert later.problem == undelivered.ASKED_TO_WAIT


ENDINGS = [each.value for each in ENDED]


@pytest.mark.parametrize("status", [*(each.value for each in Status), None])
@pytest.mark.parametrize("entity", [Entity.OPERATION, Entity.NODE])
def test_only_the_end_of_an_operation_is_named_by_its_status(entity: Entity, status: str | None) -> None:
    changes = {} if status is None else {"status": status}
    event = replace(message().event, entity=entity, name="ended", changes=changes)
    named = entity is Entity.OPERATION and status in ENDINGS
    assert undelivered.type_of(event) == (f"operation.{status}" if named else f"{entity.value}.ended")


def test_things_of_two_kinds_with_one_id_are_two_things() -> None:
    node, operation = message(1), message(2)
    operation = replace(operation, event=replace(operation.event, entity=Entity.OPERATION))
    assert due(node, operation) == ["ev-1", "ev-2"]


def test_the_event_of_a_message_that_was_given_up_says_which_and_why_and_is_never_sent_itself() -> None:
    draft = undelivered.dropped(replace(message(7, thing="node-9"), problem="it answered 404"))
    assert (draft.entity, draft.entity_id, draft.name) == (
        Entity.INSTALLATION,
        "webhook ops",
        "webhook_dropped",
    )
    assert draft.detail == "node.booted node-9 (ev-7): it answered 404"
    assert {draft.name, "webhook_resent", "webhook_forgotten"} == {*undelivered.NEVER_SENT}


def test_only_the_newest_given_up_messages_are_kept() -> None:
    over = [
        undelivered.failed(message(number, thing=f"t{number}"), "no", now=NOW + number, again_at=None)
        for number in (3, 1, 2)
    ]
    waiting = message(9)
    assert [each.event.id for each in undelivered.beyond([*over, waiting], 1)] == ["ev-1", "ev-2"]
    assert undelivered.beyond([*over, waiting], 3) == []


def refused(number: int = 1, *, thing: str = "a", tries: int = REFUSED_TRIES) -> Undelivered:
    return replace(message(number, thing=thing), tries=tries, tried_at=NOW, refused=True)


def crowding(*messages: Undelivered, most: int) -> list[str]:
    return [each.event.id for each in undelivered.crowding(messages, most)]


@pytest.mark.parametrize("most", range(1, 8))
def test_so_many_give_way_that_the_rest_may_wait(most: int) -> None:
    waiting = [refused(number, thing=f"t{number % 3}") for number in range(1, 7)]
    over = replace(refused(9), due_at=None)
    assert len(crowding(*waiting, over, most=most)) == max(0, 6 - most)


def test_the_first_message_of_the_thing_with_the_most_gives_way_each_time() -> None:
    a = [refused(number, thing="a") for number in (1, 4, 6)]
    b = [refused(number, thing="b") for number in (2, 5)]
    c = refused(3, thing="c")
    said = (c, *reversed(a), *b)
    assert crowding(*said, most=5) == ["ev-1"]
    assert crowding(*said, most=4) == ["ev-1", "ev-2"], "of equals, the oldest: a is left with 2, as b"
    assert crowding(*said, most=3) == ["ev-1", "ev-2", "ev-4"]


@pytest.mark.parametrize(
    ("first", "gives_way"),
    [
        (refused(tries=REFUSED_TRIES - 1), False),
        (refused(tries=REFUSED_TRIES), True),
        (refused(tries=REFUSED_TRIES + 1), True),
        (replace(refused(), refused=False), False),
        (message(), False),
    ],
)
def test_only_what_is_refused_while_others_are_taken_gives_way(first: Undelivered, gives_way: bool) -> None:
    behind = [message(number, thing="a") for number in (2, 3)]
    other = [message(number, thing=f"t{number}") for number in (4, 5)]
    found = crowding(first, *behind, *other, most=1)
    assert found == (["ev-1", "ev-2", "ev-3"] if gives_way else [])


@pytest.mark.parametrize(
    ("taken_at", "is_refused"), [(0.0, False), (NOW + 1.9, False), (NOW + 2, True), (NOW + 9, True)]
)
def test_a_message_is_refused_once_others_were_taken_between_two_tries(
    taken_at: float, is_refused: bool
) -> None:
    def tried(before: Undelivered, at: float, *, taken_at: float = 0.0) -> Undelivered:
        return undelivered.failed(before, "500", now=NOW + at, again_at=NOW + 99, taken_at=taken_at)

    first = tried(message(), 2, taken_at=NOW + 1)
    assert not first.refused, "it was tried once"
    second = tried(first, 10, taken_at=taken_at)
    assert second.refused is is_refused
    assert tried(second, 20).refused is is_refused
    assert not undelivered.sent_again(second, now=NOW + 30).refused


def test_what_gave_way_was_given_up_and_says_why() -> None:
    over = undelivered.crowded_out(replace(message(), problem="it answered 500"), now=NOW + 7)
    assert (over.given_up, over.given_up_at, over.version) == (True, NOW + 7, 2)
    assert over.problem == "it answered 500; it gave way to other messages"
