"""Messages of webhooks that their receivers have not taken."""

from typing import Annotated, Self

from msgspec import Meta

from muster.domain import checks
from muster.domain import undelivered as domain
from muster.wire.base import EXAMPLE_TIME, PageQuery, Shape, Time, convert
from muster.wire.events import Event

IDS_MOST = 1000
Name = Annotated[str, Meta(min_length=1, max_length=checks.NAME_MAX)]


class UndeliveredQuery(PageQuery):
    webhook: Name | None = None
    """Without it: of all webhooks."""


class Undelivered(Shape):
    EXAMPLE = {
        "id": "chat.ev-17",
        "webhook": "chat",
        "type": "node.booted",
        "state": "waiting",
        "since": EXAMPLE_TIME,
        "tries": 4,
        "tried_at": EXAMPLE_TIME,
        "due_at": EXAMPLE_TIME,
        "given_up_at": None,
        "problem": "hooks.example.com answered 500",
        "event": Event.EXAMPLE,
    }

    id: str
    webhook: str
    type: str
    """As `events` of the webhook's settings names it."""
    state: Annotated[str, Meta(extra_json_schema={"enum": ["waiting", "given_up"]})]
    since: Time
    """When it was first wanted; anew when a person sends it again."""
    tries: int
    tried_at: Time | None = None
    due_at: Time | None = None
    """When it is sent again; null: it was given up."""
    given_up_at: Time | None = None
    problem: str
    event: Event

    @classmethod
    def of(cls, message: domain.Undelivered) -> Self:
        return convert(
            cls,
            message,
            type=domain.type_of(message.event),
            state="given_up" if message.given_up else "waiting",
            event=Event.of(message.event),
        )


class MessagesRequest(Shape):
    """Which undelivered messages."""

    EXAMPLE = {"webhook": "chat", "ids": ["chat.ev-17"]}

    webhook: Name
    ids: Annotated[tuple[str, ...], Meta(min_length=1, max_length=IDS_MOST)] | None = None
    """Without it: all of the webhook. An empty list is refused: an empty choice must not mean all."""


class Backlog(Shape):
    """What one webhook has not delivered."""

    webhook: str
    waiting: int
    given_up: int
    oldest_since: Time | None = None
    """Of those that wait."""
    given_up_at: Time | None = None
    """When the last one was given up."""
    problem: str
    """Why the oldest waits; if none waits, why the last was given up."""
    removed: bool = False
    """Whether the webhook is no longer in the settings, so that nothing sends its messages."""
