"""Listen to one scale set: keep the set and its one session, and poll its queue without end.

perform    the set and its session, made again when they vanish; waits while another listener has it
_poll      one long poll after the other; never waits for what a message asks for
_serve     one step (`set_step`) for each message, and every few seconds without one
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from muster.domain.backoff import backoff
from muster.domain.errors import InvalidRequest, NotFound, ProviderError, Refused, StoreUnavailable
from muster.domain.ids import InstallationId
from muster.integrations.github.actions_service import SessionMissing, SessionTaken, SetMissing
from muster.integrations.github.runners import RunnerSpec, Scope
from muster.integrations.github.scale_set_shapes import Message, ScaleSet
from muster.integrations.github.scale_sets import SetSession, SetSpec
from muster.integrations.github.set_directory import SetDirectory, spec_of
from muster.integrations.github.set_heard import Heard
from muster.integrations.github.set_remarks import earlier_labels, refuses_public, remarks
from muster.integrations.github.set_report import (
    LISTENING,
    PRIVATE,
    REFUSED,
    STOPPED,
    TROUBLED,
    WAITING,
    SetReport,
)
from muster.integrations.github.set_step import LeaseOver, SetLease, SetStep
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext, Held, StandingDuty
from muster.ports.wakeups import ROOM

logger = logging.getLogger(__name__)

TICK = 5.0
"""Seconds after which runners are looked at without news: some may have been lost."""
GATHER = 0.1
"""Seconds after a step. Nodes become idle in crowds: one look answers them all."""
SESSION_EVERY = 10.0
"""Seconds between two tries while another listener has the session. GitHub frees one after about 90."""
SESSION_LATE = 180.0
"""Seconds after which the session is not one that a dead replica left behind."""
POLL_LEAST = 1.0
"""Seconds that a poll without a message takes at least."""
PAUSE, PAUSE_MOST = 1.0, 60.0
"""Seconds before another poll after one that failed: at first, and at most."""
CLOSING = 5.0


class SetListener:
    def __init__(
        self, given: DutyContext, directory: SetDirectory, report: SetReport, *, installation_id: str
    ) -> None:
        self._given = given
        self._clock = given.clock
        self._directory = directory
        self._sets = directory.sets
        self._report = report
        self._spec = report.spec
        self._lease = SetLease()
        self._step = SetStep(given, directory, report, self._lease, installation_id=installation_id)
        self._topic = f"scale_set/{report.template}"
        self._changed = asyncio.Event()
        """The capacity changed: the poll under way tells an old one."""

    async def perform(self, held: Held) -> None:
        """Listen until cancelled. Raises what keeps it from listening, after it was told."""
        self._lease.held = held
        try:
            await self._listen()
        except asyncio.CancelledError:
            with suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._report.tell(STOPPED)
            raise

    async def _listen(self) -> None:
        while True:
            try:
                await self._serve_session(await self._ensured())
            except (SetMissing, SessionMissing) as error:
                logger.info("scale set begins anew", extra={"set": self._spec.name, "error": str(error)})
                self._directory.forget(self._spec)
                await self._clock.sleep(PAUSE)
            except LeaseOver:
                return
            except (ProviderError, StoreUnavailable) as error:
                with suppress(StoreUnavailable):
                    await self._tell_failure(error)
                raise

    async def _tell_failure(self, error: Exception, heard: Heard | None = None) -> None:
        state = REFUSED if isinstance(error, Refused) else TROUBLED
        said = None if heard is None else heard.statistics
        await self._report.tell(state, str(error), said, failing=isinstance(error, ProviderError))

    # --- the set and its session ------------------------------------------------------------------

    async def _ensured(self) -> ScaleSet:
        """Return the set as it should be, and note what an operator should know of it."""
        template = await self._given.store.template(self._report.template)
        earlier = await earlier_labels(self._given.store, template, self._spec.scope)
        found = await self._sets.ensure(self._spec, earlier=earlier)
        self._directory.keep(self._spec, found)
        self._step.remarks = await remarks(self._sets, self._spec, found)
        private = await refuses_public(self._directory.registry, self._spec)
        self._step.state = PRIVATE if private else LISTENING
        return found

    async def _serve_session(self, found: ScaleSet) -> None:
        session = await self._opened(found)
        try:
            await self._serve(session)
        finally:
            with suppress(ProviderError, TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await session.close()

    async def _opened(self, found: ScaleSet) -> SetSession:
        """Open the set's one session. Wait while another listener has it, visibly."""
        since = self._clock.now()
        while True:
            self._lease.check()
            try:
                return await self._sets.open(self._spec.scope, found.id, owner=self._given.owner)
            except SessionTaken:
                waits = self._clock.now() - since
                words = (
                    f"another program has listened to the set for {waits:.0f} s: stop it, or choose another"
                    " name for this set"
                )
                await self._report.tell(WAITING, words if waits >= SESSION_LATE else "")
                await self._clock.sleep(SESSION_EVERY)

    # --- one session ------------------------------------------------------------------------------

    async def _serve(self, session: SetSession) -> None:
        heard = Heard()
        if session.current.statistics is not None:
            heard.count(session.current.statistics, now=self._clock.now())
        await self._try_step(session, heard)
        news = self._given.wakeups.listen((self._topic, ROOM))
        poller = asyncio.create_task(self._poll(session, heard))
        try:
            while not poller.done():
                await news.wait(TICK)
                self._lease.check()
                await self._try_step(session, heard)
                if not heard.inbox:
                    await self._clock.sleep(GATHER)
            await poller
        finally:
            news.close()
            poller.cancel()
            await asyncio.gather(poller, return_exceptions=True)

    async def _try_step(self, session: SetSession, heard: Heard) -> None:
        """Take a step. One that fails is taken again with the next news, at the latest after TICK."""
        announced = heard.capacity
        try:
            await self._step.take(session, heard)
        except (SessionMissing, SetMissing):
            raise
        except NotFound:
            return  # the template is gone, and this duty soon
        except InvalidRequest as error:
            # The template was retired just now, or it can't be used as it is.
            with suppress(StoreUnavailable):
                await self._report.tell(REFUSED, str(error), heard.statistics)
        except (ProviderError, StoreUnavailable) as error:
            logger.info("cannot serve a scale set now", extra={"set": self._spec.name, "error": str(error)})
            with suppress(StoreUnavailable):
                await self._tell_failure(error, heard)
        if heard.capacity != announced:
            self._changed.set()

    async def _poll(self, session: SetSession, heard: Heard) -> None:
        """Poll for ever. Raises SessionMissing and SetMissing."""
        failures = 0
        try:
            while True:
                began = self._clock.now()
                try:
                    message = await self._polled(session, heard)
                    failures, heard.problem = 0, ""
                except (SessionMissing, SetMissing):
                    raise
                except ProviderError as error:
                    heard.problem = str(error)
                    self._given.wakeups.notify(self._topic)
                    pause = backoff(failures, first=PAUSE, most=PAUSE_MOST)
                    failures += 1
                    await self._clock.sleep(max(pause, getattr(error, "retry_after", 0.0)))
                    continue
                if message is not None:
                    heard.inbox.append(message)
                    self._given.wakeups.notify(self._topic)
                    continue
                if not heard.inbox:
                    # All was acknowledged. GitHub begins its numbers again without a word; 0 hides none.
                    session.last_message = 0
                if (left := began + POLL_LEAST - self._clock.now()) > 0.0:
                    await self._clock.sleep(left)
        finally:
            self._given.wakeups.notify(self._topic)

    async def _polled(self, session: SetSession, heard: Heard) -> Message | None:
        """Wait for a message; None: none came, or the capacity changed meanwhile."""
        self._changed.clear()
        poll = asyncio.create_task(session.poll(capacity=heard.capacity))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({poll, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            if not poll.done():
                poll.cancel()
            await asyncio.gather(poll, changed, return_exceptions=True)
        # A message on its way when the poll was given up comes again: the cursor did not move.
        return None if poll.cancelled() else poll.result()


class SetListeners:
    """Say which scale sets this installation listens to: a standing duty for each template that names one.

    Implements muster.ports.duties.StandingDuties.
    """

    def __init__(self, given: DutyContext, directory: SetDirectory) -> None:
        self._given = given
        self._directory = directory
        self._installation: InstallationId | None = None

    async def wanted(self) -> Sequence[StandingDuty]:
        if self._installation is None:
            self._installation = (await self._given.store.installation()).id
        specs: dict[tuple[Scope, str, str], tuple[str, SetSpec]] = {}
        for template in await self._given.store.templates():
            runner: RunnerSpec = TEMPLATE.of(template.spec)
            if runner.scale_set and not template.spec.retired and template.spec.runtime == "github":
                spec = spec_of(runner)
                # GitHub has one set of that name in a group: the first template has it.
                specs.setdefault((spec.scope, spec.group, spec.name.lower()), (template.name, spec))
        names = Counter(spec.name for _, spec in specs.values())
        return [
            self._duty(name, spec, spec.name if names[spec.name] == 1 else f"{spec.scope}/{spec.name}")
            for name, spec in specs.values()
        ]

    def _duty(self, template: str, spec: SetSpec, queue: str) -> StandingDuty:
        report = SetReport(
            jobs=self._given.jobs, clock=self._given.clock, template=template, spec=spec, queue=queue
        )
        installation = self._installation or ""
        listener = SetListener(self._given, self._directory, report, installation_id=installation)
        return StandingDuty(name=f"scale_set/{template}", content=(spec, queue), perform=listener.perform)
