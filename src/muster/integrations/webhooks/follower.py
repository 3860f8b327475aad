"""Follow the feed from a bookmark on, and deliver what a webhook wants.

One replica follows for each webhook. Two loops work side by side. One follows the feed, sends each message
once and keeps what was not taken. The other sends again what was kept, with growing pauses. So a message that
its receiver never takes holds up later messages about the same thing, and no others.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from muster.domain import undelivered
from muster.domain.backoff import backoff, spread
from muster.domain.errors import Conflict, CursorLost, InvalidRequest, NotFound
from muster.domain.events import Entity, Event
from muster.domain.ids import OperationId
from muster.domain.operation import Operation
from muster.domain.undelivered import Undelivered
from muster.integrations.webhooks import messages
from muster.integrations.webhooks.receiver import NotDelivered, Receiver
from muster.integrations.webhooks.tables import Webhook
from muster.ports.duties import DutyContext, Held, StandingDuty
from muster.ports.paging import every_undelivered
from muster.ports.store import Cursor, Page, if_found

logger = logging.getLogger(__name__)

LOOK_EVERY = 2.0
PAGE = 200
AT_ONCE = 8
PAUSE, PAUSE_MOST = 2.0, 600.0
WAITING_MOST = 200
"""Messages of one webhook that may wait. While its receiver is away, the feed is not read on: so nothing is
lost. While its receiver takes others, what it refuses gives way. A page that is under way comes on top."""
GIVEN_UP_MOST = 200
"""Messages of one webhook that were given up and can be sent again. The oldest are forgotten first."""
AWAY = 60.0
"""Seconds without a message taken after which a receiver that answers again counts as having been away."""


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
    def __init__(
        self,
        given: DutyContext,
        webhook: Webhook,
        url: str,
        *,
        connect: Callable[[Webhook], Receiver] = Receiver,
    ) -> None:
        self._given = given
        self._connect = connect
        self._store = given.store
        self._messages = given.messages
        self._clock = given.clock
        self._webhook = webhook
        self._duty = f"webhook {webhook.name}"
        self._url = url
        self._failing_since: float | None = None
        """When the first try of a message failed, or this follower began, if none was taken since."""
        self._woken_at = 0.0
        """When the receiver came back. What was tried before is due."""
        self._taken_at = 0.0
        self._probed: Cursor | None = None
        """Up to where the feed has no message for a probe."""
        self._probes: list[tuple[Entity, str]] = []
        """What the probes were about that were not taken."""
        self._probe_at = 0.0
        self._paused_until = 0.0
        """Until then the receiver wants no message."""
        self._warned = False

    async def perform(self, held: Held) -> None:
        try:
            receiver = self._connect(self._webhook)
        except InvalidRequest as error:
            raise NotDelivered(str(error), passing=True) from error
        try:
            after = await self._start()
            self._failing_since = self._clock.now()
            logger.info("a webhook follows the feed from here", extra={"duty": self._duty})
            await _together([self._follow(receiver, after, held), self._repeat(receiver, held)])
        except Conflict:
            return  # another replica follows now
        finally:
            await receiver.close()

    # --- the feed ---------------------------------------------------------------------------------

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

    async def _follow(self, receiver: Receiver, after: Cursor, held: Held) -> None:
        while held():
            waiting = await self._waiting()
            things = {each.about for each in waiting}
            try:
                room = self._room(len(waiting))
                page = await self._page(after, room)
                if room <= 0 and not self._works:
                    await self._probe(receiver, after, things)
            except CursorLost:
                logger.warning(
                    "the feed was replaced; a webhook goes on at its end", extra={"duty": self._duty}
                )
                after = await self._tail()
                continue
            if page is None or page.next is None:
                await self._clock.sleep(LOOK_EVERY)
                continue
            await self._send_all(receiver, page.items, things)
            await self._store.move_bookmark(self._duty, self._given.owner, page.next)
            after = page.next

    async def _waiting(self) -> Sequence[Undelivered]:
        """Return the messages that wait. Gives up what must give way, and forgets the oldest given up."""
        kept = await self._kept()
        for each in undelivered.beyond(kept, GIVEN_UP_MOST):
            await self._write(each, None)
        over = undelivered.crowding(kept, WAITING_MOST) if self._works else []
        for each in over:
            await self._write(each, undelivered.crowded_out(each, now=self._clock.now()))
        waiting = [each for each in kept if not each.given_up and each not in over]
        if self._works and len(waiting) > WAITING_MOST:
            self._woken_at = self._taken_at  # what is tried now tells what the receiver refuses
        return waiting

    @property
    def _works(self) -> bool:
        """Return whether the receiver took a message, and refused no new one since."""
        return self._failing_since is None

    def _room(self, waiting: int) -> int:
        """Return how many events may be read: of a receiver that works a page, else no more than may wait."""
        return PAGE if self._works and waiting <= WAITING_MOST else WAITING_MOST - waiting

    async def _page(self, after: Cursor, room: int) -> Page[Event] | None:
        """Return the next events; None: there is no room, no event, or a pause."""
        if room <= 0 or self._paused():
            return None
        page = await self._store.events(after=after, limit=min(PAGE, room))
        return page if page.items else None

    async def _probe(
        self, receiver: Receiver, after: Cursor, waiting: Collection[tuple[Entity, str]]
    ) -> None:
        """Try the next message that waits for no other. If it is taken, the receiver works, and refuses what
        waits. It is sent again with its page. The pauses grow with the time without success."""
        now = self._clock.now()
        if self._paused() or now < self._probe_at:
            return
        page = await self._store.events(after=self._probed or after, limit=PAGE)
        for event in page.items:
            thing = undelivered.about(event)
            if thing in waiting or thing in self._probes or not messages.wants(self._webhook, event):
                continue
            operation = await self._operation(event)
            if not messages.concerns(self._webhook, operation):
                continue
            self._probes.append(thing)
            self._probe_at = now + min((now - (self._failing_since or now)) / 2, PAUSE_MOST)
            await self._sent(receiver, undelivered.wanted(self._webhook.name, event, now=now), operation)
            return
        self._probed = page.next
        if not page.items:  # the end of the feed: begin anew
            self._probed = None
            self._probes.clear()

    async def _send_all(
        self, receiver: Receiver, events: Sequence[Event], waiting: Collection[tuple[Entity, str]]
    ) -> None:
        """Send the messages of a page: those about one thing one after the other, the others side by side."""
        things: dict[tuple[Entity, str], list[Event]] = {}
        for event in events:
            if messages.wants(self._webhook, event):
                things.setdefault(undelivered.about(event), []).append(event)
        slots = asyncio.Semaphore(AT_ONCE)
        await _together(
            self._send_in_order(receiver, some, slots, behind=thing in waiting)
            for thing, some in things.items()
        )

    async def _send_in_order(
        self, receiver: Receiver, events: Sequence[Event], slots: asyncio.Semaphore, *, behind: bool
    ) -> None:
        """Send messages about one thing. `behind`: an earlier one waits, so these wait behind it."""
        for event in events:
            operation = await self._operation(event)
            if not messages.concerns(self._webhook, operation):
                continue
            message = undelivered.wanted(self._webhook.name, event, now=self._clock.now())
            if not behind:
                async with slots:
                    after = await self._sent(receiver, message, operation)
                if after is None:
                    continue
                message = after
            await self._messages.keep_undelivered(message)
            behind = not message.given_up

    # --- what was kept ----------------------------------------------------------------------------

    async def _repeat(self, receiver: Receiver, held: Held) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        while held():
            kept = await self._kept()
            if self._warned and all(each.given_up for each in kept):
                logger.info("no message waits any more", extra={"duty": self._duty})
                self._warned = False
            due = undelivered.due(kept, now=self._clock.now(), woken_at=self._woken_at)
            due = [] if self._paused() else due
            await _together(self._send_again(receiver, each, slots) for each in due)
            if not due:
                await self._clock.sleep(LOOK_EVERY)

    async def _send_again(self, receiver: Receiver, message: Undelivered, slots: asyncio.Semaphore) -> None:
        async with slots:
            after = await self._sent(receiver, message, await self._operation(message.event))
        await self._write(message, after)

    async def _write(self, before: Undelivered, after: Undelivered | None) -> None:
        with suppress(Conflict):  # a person sent it again meanwhile; the next look finds it so
            await self._messages.write_undelivered(before, after)

    async def _kept(self) -> Sequence[Undelivered]:
        return [each async for each in every_undelivered(self._messages, self._webhook.name)]

    # --- one message ------------------------------------------------------------------------------

    async def _operation(self, event: Event) -> Operation | None:
        if event.entity is not Entity.OPERATION:
            return None
        return await if_found(self._store.operation(OperationId(event.entity_id)))

    async def _sent(
        self, receiver: Receiver, message: Undelivered, operation: Operation | None
    ) -> Undelivered | None:
        """Send the message once. None: it was taken; else the message as it is after this try."""
        if self._paused():
            return undelivered.postponed(message, until=self._paused_until)
        event = message.event
        body = messages.body_of(self._webhook.form, event, operation, url=self._url, now=self._clock.now())
        try:
            await receiver.send(event.id, body, now=self._clock.now())
        except NotDelivered as error:
            now, again_at = self._clock.now(), None
            if error.passing:
                self._failed(error, now, first=message.tries == 0)
                pause = backoff(message.tries, first=PAUSE, most=PAUSE_MOST)
                again_at = now + max(spread(pause, self._given.ids.jitter()), error.retry_after)
            return undelivered.failed(
                message, str(error), now=now, again_at=again_at, taken_at=self._taken_at
            )
        self._taken()
        return None

    def _paused(self) -> bool:
        return self._clock.now() < self._paused_until

    def _failed(self, error: NotDelivered, now: float, *, first: bool) -> None:
        """Note a failure. `first`: of a new message. An old one says nothing of the others."""
        self._paused_until = max(self._paused_until, now + error.retry_after)
        if first and self._failing_since is None:
            self._failing_since = now
        if not self._warned:
            logger.warning(
                "%s; what it did not take is repeated for a day", error, extra={"duty": self._duty}
            )
            self._warned = True

    def _taken(self) -> None:
        self._taken_at = now = self._clock.now()
        if self._failing_since is not None and now - self._failing_since > AWAY:
            self._woken_at = now
        self._failing_since, self._probed, self._probe_at = None, None, 0.0
        self._probes.clear()


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of it side by side. The first error ends the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
