"""Messages that no receiver took: when each is sent again, which one waits for another, which is given up.

Messages about one thing go out in the order of its events. So of each thing, only the first waiting message
is sent again, and later ones wait behind it. Messages about other things pass.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from muster.domain.events import Draft, Entity, Event, of_installation
from muster.domain.operation import ENDED

GIVE_UP_AFTER = 86_400.0
"""Seconds of trying: a message about yesterday helps no one."""
REFUSED_TRIES = 5
"""Tries, over about a minute, after which a refused message may give way: the receiver was not just busy."""
KEPT = 7 * 86_400.0
"""Seconds after which the pruner forgets a message, counted from when it was first wanted."""
DROPPED = "webhook_dropped"
"""The event of a message that was given up."""
RESENT, FORGOTTEN = "webhook_resent", "webhook_forgotten"
"""The events of what a person did about undelivered messages, one for each act."""
NEVER_SENT = (DROPPED, RESENT, FORGOTTEN)
"""No message is sent of these: the receiver could refuse it, which makes the next such event, for ever."""
BEHIND = "an earlier message about the same thing waits"
ASKED_TO_WAIT = "the receiver asked for a pause"
_ENDS = tuple(status.value for status in ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """One event that a webhook's receiver has not taken."""

    id: str
    version: int = 1
    webhook: str
    event: Event
    since: float
    """When it was first wanted; anew when a person sends it again."""
    tries: int = 0
    tried_at: float | None = None
    refused: bool = False
    """Whether the receiver took others between two tries of it: then it is not away."""
    due_at: float | None
    """When it is sent again. None: it was given up."""
    given_up_at: float | None = None
    problem: str

    @property
    def given_up(self) -> bool:
        return self.due_at is None

    @property
    def about(self) -> tuple[Entity, str]:
        return about(self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What one webhook has not delivered."""

    webhook: str
    waiting: int
    given_up: int
    oldest_since: float | None
    """Of those that wait."""
    given_up_at: float | None
    """When the last one was given up."""
    problem: str
    """Why the oldest waits; if none waits, why the last was given up."""
    removed: bool = False
    """Whether the webhook is no longer in the settings, so that nothing sends its messages."""


def type_of(event: Event) -> str:
    """Return the type: `operation.failed` for the end of one, else the entity and the name of the event."""
    status = event.changes.get("status")
    if event.entity is Entity.OPERATION and status in _ENDS:
        return f"operation.{status}"
    return f"{event.entity.value}.{event.name}"


def about(event: Event) -> tuple[Entity, str]:
    """Return what the event is about: its messages keep their order."""
    return event.entity, event.entity_id


def wanted(webhook: str, event: Event, *, now: float) -> Undelivered:
    """Return a message that waits behind an earlier one, and was not sent yet."""
    return Undelivered(
        id=f"{webhook}.{event.id}", webhook=webhook, event=event, since=now, due_at=now, problem=BEHIND
    )


def failed(
    message: Undelivered, problem: str, *, now: float, again_at: float | None, taken_at: float = 0.0
) -> Undelivered:
    """Return the message after a try in vain. `again_at`: when to try again; None: never. `taken_at`: when
    the receiver last took another one."""
    refused = message.refused or (message.tried_at is not None and taken_at >= message.tried_at)
    tried = replace(message, tries=message.tries + 1, tried_at=now, refused=refused)
    if again_at is None:
        return _given_up(tried, problem, now)
    if now - message.since > GIVE_UP_AFTER:
        return _given_up(tried, f"{problem}; it was tried for a day", now)
    return replace(tried, version=message.version + 1, due_at=again_at, problem=problem)


def _given_up(message: Undelivered, problem: str, now: float) -> Undelivered:
    return replace(message, version=message.version + 1, due_at=None, given_up_at=now, problem=problem)


def postponed(message: Undelivered, *, until: float) -> Undelivered:
    """Return the message while its receiver wants none: it is not tried."""
    return replace(message, version=message.version + 1, due_at=until, problem=ASKED_TO_WAIT)


def sent_again(message: Undelivered, *, now: float) -> Undelivered:
    """Return the message as it is when a person sends it again: due at once, for another day."""
    return replace(
        message,
        version=message.version + 1,
        since=now,
        tries=0,
        refused=False,
        due_at=now,
        given_up_at=None,
    )


def due(messages: Sequence[Undelivered], *, now: float, woken_at: float = 0.0) -> list[Undelivered]:
    """Return the messages to send now: of each thing the first, if its time has come.

    `woken_at`: when the receiver came back. What was tried before that is due.
    """
    firsts: dict[tuple[Entity, str], Undelivered] = {}
    for each in messages:
        if not each.given_up and (each.about not in firsts or _place(each) < _place(firsts[each.about])):
            firsts[each.about] = each
    return [each for each in firsts.values() if _is_due(each, now, woken_at)]


def _place(message: Undelivered) -> tuple[int, ...]:
    """Return the place in the feed: the numbers of the event's id. Of one thing, they only grow."""
    return tuple(int(part) for part in message.event.id.split("-") if part.isdecimal())


def _is_due(message: Undelivered, now: float, woken_at: float) -> bool:
    woken = message.tried_at is not None and message.tried_at < woken_at
    return woken or (message.due_at is not None and message.due_at <= now)


def crowding(messages: Sequence[Undelivered], most: int) -> list[Undelivered]:
    """Return the waiting messages that give way, so that `most` are left.

    Each time, the thing with the most messages gives up its first one; of equals, the oldest message goes.
    Only things whose messages the receiver refused while it took others give way.
    """
    waiting = sorted((each for each in messages if not each.given_up), key=_place)
    refused = {each.about for each in messages if each.refused and each.tries >= REFUSED_TRIES}
    things: dict[tuple[Entity, str], list[Undelivered]] = {}
    for each in waiting:
        if each.about in refused:
            things.setdefault(each.about, []).append(each)
    found: list[Undelivered] = []
    while len(waiting) - len(found) > most and any(things.values()):
        greediest = min(filter(None, things.values()), key=lambda some: (-len(some), _place(some[0])))
        found.append(greediest.pop(0))
    return found


def crowded_out(message: Undelivered, *, now: float) -> Undelivered:
    """Return the message given up, so that others find room."""
    return _given_up(message, f"{message.problem}; it gave way to other messages", now)


def beyond(messages: Iterable[Undelivered], most: int) -> list[Undelivered]:
    """Return the oldest given up messages, without the newest `most`."""
    over = sorted((each for each in messages if each.given_up), key=lambda each: each.given_up_at or 0.0)
    return over[: max(0, len(over) - most)]


def dropped(message: Undelivered) -> Draft:
    """Return the event of a message that was given up."""
    event = message.event
    what = f"{type_of(event)} {event.entity_id} ({event.id})"
    return of_installation(f"webhook {message.webhook}", DROPPED, {}, detail=f"{what}: {message.problem}")
