"""Follow the feed from a bookmark on, and deliver what a webhook wants.

One replica follows for each webhook. A receiver that is away holds up its own webhook alone. Its messages are
repeated with growing pauses. After a day a message is given up, and an event says so.
"""

import asyncio
import logging
from collections.abc import Sequence

from muster.domain.backoff import backoff, spread
from muster.domain.errors import Conflict, CursorLost, InvalidRequest, NotFound
from muster.domain.events import Entity, Event
from muster.domain.ids import OperationId
from muster.domain.operation import Operation
from muster.integrations.webhooks import messages
from muster.integrations.webhooks.receiver import NotDelivered, Receiver
from muster.integrations.webhooks.tables import Webhook
from muster.ports.duties import DutyContext, Held, StandingDuty
from muster.ports.store import Cursor

logger = logging.getLogger(__name__)

LOOK_EVERY = 2.0
PAGE = 200
AT_ONCE = 8
PAUSE, PAUSE_MOST = 2.0, 600.0
GIVE_UP_AFTER = 86_400.0
"""Seconds after its event: a message about yesterday helps no one."""


class Webhooks:
    """Implements muster.ports.duties.StandingDuties."""

    def __init__(self, given: DutyContext, webhooks: Sequence[Webhook], url: str) -> None:
        self._duties = [
            StandingDuty(
                name=f"webhook {each.name}", content=each, perform=Follower(given, each, url).perform
            )
            for each in webhooks
        ]

    async def wanted(self) -> Sequence[StandingDuty]:
        return self._duties


class Follower:
    def __init__(self, given: DutyContext, webhook: Webhook, url: str) -> None:
        self._given = given
        self._store = given.store
        self._clock = given.clock
        self._webhook = webhook
        self._duty = f"webhook {webhook.name}"
        self._url = url
        self._failing = False

    async def perform(self, held: Held) -> None:
        try:
            receiver = Receiver(self._webhook)
        except InvalidRequest as error:
            raise NotDelivered(str(error), passing=True) from error
        try:
            after = await self._start()
            logger.info("a webhook follows the feed from here", extra={"duty": self._duty})
            while held():
                after = await self._step(receiver, after)
        except Conflict:
            return  # another replica follows now
        finally:
            await receiver.close()

    async def _start(self) -> Cursor:
        """Return where to go on. A new webhook hears of what happens from now on."""
        kept = await self._store.bookmark(self._duty)
        return await self._tail() if kept is None else kept

    async def _tail(self) -> Cursor:
        end = (await self._store.last_events(limit=1)).next
        if end is None:
            raise NotFound("the end of the feed", self._duty)
        await self._store.move_bookmark(self._duty, self._given.owner, end)
        return end

    async def _step(self, receiver: Receiver, after: Cursor) -> Cursor:
        try:
            page = await self._store.events(after=after, limit=PAGE)
        except CursorLost:
            logger.warning("the feed was replaced; a webhook goes on at its end", extra={"duty": self._duty})
            return await self._tail()
        if not page.items or page.next is None:
            await self._clock.sleep(LOOK_EVERY)
            return after
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for event in page.items:
                group.create_task(self._handle(receiver, event, slots))
        await self._store.move_bookmark(self._duty, self._given.owner, page.next)
        return page.next

    async def _handle(self, receiver: Receiver, event: Event, slots: asyncio.Semaphore) -> None:
        if not messages.wants(self._webhook, event):
            return
        async with slots:
            operation = await self._operation(event)
            if messages.concerns(self._webhook, operation):
                await self._deliver(receiver, event, operation)

    async def _operation(self, event: Event) -> Operation | None:
        if event.entity is not Entity.OPERATION:
            return None
        try:
            return await self._store.operation(OperationId(event.entity_id))
        except NotFound:
            return None

    async def _deliver(self, receiver: Receiver, event: Event, operation: Operation | None) -> None:
        """Send the message until it is taken, refused or too old."""
        tries = 0
        while True:
            now = self._clock.now()
            if now - event.at > GIVE_UP_AFTER:
                await self._give_up(event, NotDelivered("it is more than a day old", passing=False))
                return
            body = messages.body_of(self._webhook.form, event, operation, url=self._url, now=now)
            try:
                await receiver.send(event.id, body, now=now)
            except NotDelivered as error:
                if not error.passing:
                    await self._give_up(event, error)
                    return
                self._failed(error)
                pause = max(backoff(tries, first=PAUSE, most=PAUSE_MOST), error.retry_after)
                tries += 1
                await self._clock.sleep(spread(pause, self._given.ids.jitter()))
            else:
                self._delivered()
                return

    async def _give_up(self, event: Event, error: NotDelivered) -> None:
        detail = f"{messages.type_of(event)} {event.entity_id} ({event.id}): {error}"
        await self._store.note(
            self._duty, messages.DROPPED, reason=None, detail=detail, now=self._clock.now()
        )

    def _failed(self, error: NotDelivered) -> None:
        if not self._failing:
            logger.warning("%s; the message is repeated for a day", error, extra={"duty": self._duty})
        self._failing = True

    def _delivered(self) -> None:
        if self._failing:
            logger.info("messages are taken again", extra={"duty": self._duty})
        self._failing = False
