"""Listen to one scale set: keep its session, poll its queue, and give it the runners that its jobs need.

perform    the set and its one session, made again when they vanish; waits while another listener has it
_poll      one long poll after the other; never waits for what a message asks for
_step      takes what came, reads our runners, plans (`set_scaling`), acts, and only then acknowledges

A crash may fall between any two of these. The next session starts at cursor 0, gets every message that was
not acknowledged, and statistics of the whole set. Runners are asked for by number, so none comes twice.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from muster.domain.backoff import backoff
from muster.domain.errors import MusterError, NotFound, ProviderError, Refused, StoreUnavailable
from muster.domain.job_figures import SourceCounts
from muster.domain.template import Template
from muster.integrations.github.actions_service import (
    Gone,
    RunnerBusy,
    SessionMissing,
    SessionTaken,
    SetMissing,
)
from muster.integrations.github.scale_set_shapes import (
    AVAILABLE,
    COMPLETED,
    STARTED,
    JobEntry,
    Message,
    ScaleSet,
    Statistics,
    time_of,
)
from muster.integrations.github.scale_sets import SetSession, SetSpec
from muster.integrations.github.set_directory import SetDirectory
from muster.integrations.github.set_fleet import Fleet, SetFleet
from muster.integrations.github.set_jobs import SOURCE, believable, sightings
from muster.integrations.github.set_scaling import Bounds, Demand, Plan, SetRunnerState, capacity, plan
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext, Held
from muster.ports.wakeups import ROOM

logger = logging.getLogger(__name__)

TICK = 5.0
"""Seconds after which runners are looked at without news: some may have been lost."""
SESSION_EVERY = 10.0
"""Seconds between two tries while another listener has the session. GitHub frees one after about 90."""
SESSION_LATE = 180.0
"""Seconds after which the session is not one that a dead replica left behind."""
POLL_LEAST = 1.0
"""Seconds that a poll without a message takes at least, and between two changes of the capacity."""
PAUSE, PAUSE_MOST = 1.0, 60.0
"""Seconds before another poll after one that failed: at first, and at most."""
GATHER = 0.1
"""Seconds after a step. Nodes become idle in crowds: one look answers them all."""
CLOSING = 5.0
TELL_EVERY = 10.0
"""Seconds between two notes of unchanged counts."""
LISTENING, WAITING, STARTING, TROUBLED = "listening", "waiting for the session", "starting", "in trouble"


class LeaseOver(MusterError):
    """Another replica may hold this duty: do nothing more."""


@dataclass(slots=True)
class _Heard:
    """What this session told us. A new session starts with nothing."""

    statistics: Statistics = field(default_factory=Statistics)
    waiting_since: float | None = None
    inbox: list[Message] = field(default_factory=list)
    """Messages whose work is not durable yet."""
    busy: set[str] = field(default_factory=set)
    """Names of runners that have a job. Of a runner that is not in it, nothing is known."""
    spent: set[str] = field(default_factory=set)
    capacity: int = 0
    problem: str = ""
    """Why polls fail."""


class SetListener:
    def __init__(
        self, given: DutyContext, directory: SetDirectory, template: str, spec: SetSpec, installation_id: str
    ) -> None:
        self._given = given
        self._clock = given.clock
        self._directory = directory
        self._sets = directory.sets
        self._template = template
        self._spec = spec
        self._installation = installation_id
        self._topic = f"scale_set/{template}"
        self._queue = f"{spec.scope}/{spec.name}"
        self._fleet = SetFleet(given, template, installation_id)
        self._held: Held = lambda: True
        self._told: SourceCounts | None = None
        self._notes: tuple[str, ...] = ()
        """What an operator should know of the set, although it works."""
        self._changed = asyncio.Event()
        """The capacity changed."""

    async def perform(self, held: Held) -> None:
        """Listen until cancelled. Raises what keeps it from listening, after it was told."""
        self._held = held
        while True:
            try:
                found = await self._ensured()
                await self._listened(found)
            except (SetMissing, SessionMissing) as error:
                logger.info("scale set begins anew", extra={"set": self._spec.name, "error": str(error)})
                self._directory.forget(self._spec)
                await self._clock.sleep(PAUSE)
            except LeaseOver:
                return
            except (ProviderError, StoreUnavailable) as error:
                await self._trouble(error)
                raise

    # --- the set and its session --------------------------------------------------------------------

    async def _ensured(self) -> ScaleSet:
        """Return the set as it should be, and note what an operator should know of it."""
        found = await self._sets.ensure(self._spec, earlier=await self._earlier())
        self._directory.keep(self._spec, found)
        self._notes = tuple(await self._remarks(found))
        return found

    async def _earlier(self) -> list[frozenset[str]]:
        """Return labels that earlier revisions of the template gave the set."""
        found: list[frozenset[str]] = []
        template = await self._given.store.template(self._template)
        for revision in range(max(1, template.revision - 20), template.revision):
            with suppress(NotFound):
                runner = TEMPLATE.of((await self._given.store.template(self._template, revision)).spec)
                labels = SetSpec(scope=self._spec.scope, name=runner.scale_set or "-", labels=runner.labels)
                found.append(frozenset(each.lower() for each in labels.all_labels))
        return found

    async def _remarks(self, found: ScaleSet) -> list[str]:
        remarks: list[str] = []
        dropped = [each for each in self._spec.all_labels if each.lower() not in found.label_names]
        if dropped:
            remarks.append(
                f"GitHub dropped the labels {', '.join(dropped)}: jobs that ask for them never come;"
                " GHES keeps several labels from 3.21 on"
            )
        others = await self._sets.elsewhere(self._spec, found.runner_group_id)
        if others:
            names = ", ".join(sorted(each.runner_group_name or str(each.runner_group_id) for each in others))
            remarks.append(
                f"sets of the same name are in the groups {names}: GitHub shares the jobs among them"
            )
        return remarks

    async def _listened(self, found: ScaleSet) -> None:
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
            self._check_lease()
            try:
                return await self._sets.open(self._spec.scope, found.id, owner=self._given.owner)
            except SessionTaken:
                waits = self._clock.now() - since
                late = waits >= SESSION_LATE
                words = (
                    f"another program has listened to the set for {waits:.0f} s: stop it, or choose another"
                    " name for this set"
                )
                await self._tell(WAITING, words if late else "")
                await self._clock.sleep(SESSION_EVERY)

    # --- one session ----------------------------------------------------------------------------------

    async def _serve(self, session: SetSession) -> None:
        heard = _Heard()
        if session.current.statistics is not None:
            self._count(heard, session.current.statistics)
        await self._try_step(session, heard)
        news = self._given.wakeups.listen((self._topic, ROOM))
        poller = asyncio.create_task(self._poll(session, heard))
        try:
            while not poller.done():
                await news.wait(TICK)
                self._check_lease()
                await self._try_step(session, heard)
                if not heard.inbox:
                    await self._clock.sleep(GATHER)
            await poller
        finally:
            news.close()
            poller.cancel()
            await asyncio.gather(poller, return_exceptions=True)

    async def _poll(self, session: SetSession, heard: _Heard) -> None:
        """Poll for ever. Raises SessionMissing, SetMissing and Refused."""
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
                elif (left := began + POLL_LEAST - self._clock.now()) > 0.0:
                    await self._clock.sleep(left)
        finally:
            self._given.wakeups.notify(self._topic)

    async def _polled(self, session: SetSession, heard: _Heard) -> Message | None:
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

    # --- one step -------------------------------------------------------------------------------------

    async def _try_step(self, session: SetSession, heard: _Heard) -> None:
        try:
            await self._step(session, heard)
        except (SessionMissing, SetMissing, LeaseOver):
            raise
        except (ProviderError, StoreUnavailable) as error:
            logger.info("cannot serve a scale set now", extra={"set": self._spec.name, "error": str(error)})
            await self._tell(TROUBLED, str(error), heard.statistics)

    async def _step(self, session: SetSession, heard: _Heard) -> None:
        taken = list(heard.inbox)
        entries = [entry for message in taken for entry in _entries(message)]
        for message in taken:
            await self._counted(session, heard, message)
        await self._recorded(entries)
        template = await self._given.store.template(self._template)
        fleet = await self._fleet.read(template)
        await self._followed(heard, fleet, template, entries)
        bounds = await self._bounds(template, fleet)
        runners = tuple(_known(each, heard) for each in fleet.runners)
        found = plan(self._demand(heard), runners, bounds, now=self._clock.now())
        self._announce(heard, capacity(fleet.room, bounds.most))
        held_over = await self._acquired(session, heard, taken)
        await self._acted(found, fleet, template, heard)
        done = [message for message in taken if message not in held_over]
        heard.inbox = [message for message in heard.inbox if message not in done]
        for message in done:
            self._check_lease()
            await session.acknowledge(message.message_id)
        words = self._why(found, fleet, bounds, heard)
        await self._tell(LISTENING, words, heard.statistics, plan=found, bounds=bounds)

    async def _counted(self, session: SetSession, heard: _Heard, message: Message) -> None:
        if message.statistics is None:
            return
        said = message.statistics
        if not believable(said, _entries(message)):
            said = await session.refresh() or said
            waits = sum(entry.message_type != COMPLETED for entry in _entries(message))
            if said.total_assigned_jobs == 0:
                said = replace_assigned(said, max(heard.statistics.total_assigned_jobs, waits))
        self._count(heard, said)

    def _count(self, heard: _Heard, said: Statistics) -> None:
        heard.statistics = said
        if said.total_assigned_jobs <= said.total_running_jobs:
            heard.waiting_since = None
        elif heard.waiting_since is None:
            heard.waiting_since = self._clock.now()

    def _demand(self, heard: _Heard) -> Demand:
        return Demand(
            assigned=heard.statistics.total_assigned_jobs,
            running=heard.statistics.total_running_jobs,
            waiting_since=heard.waiting_since,
        )

    async def _recorded(self, entries: Sequence[JobEntry]) -> None:
        seen = list(sightings(entries, queue=self._queue, installation_id=self._installation))
        if seen:
            await self._given.jobs.note(seen, now=self._clock.now())

    async def _followed(
        self, heard: _Heard, fleet: Fleet, template: Template, entries: Sequence[JobEntry]
    ) -> None:
        """Note which runners have a job and which had theirs. A job gets its whole time from its start."""
        for entry in entries:
            name = entry.runner_name or ""
            if entry.message_type == STARTED and name in fleet.nodes:
                heard.busy.add(name)
                started = time_of(entry.runner_assign_time) or self._clock.now()
                await self._fleet.prolong(fleet.nodes[name], until=started + template.spec.max_runtime)
            elif entry.message_type == COMPLETED and name:
                heard.busy.discard(name)
                heard.spent.add(name)
        present = {each.name for each in fleet.runners}
        heard.busy &= present
        heard.spent &= present

    async def _bounds(self, template: Template, fleet: Fleet) -> Bounds:
        runner, now = TEMPLATE.of(template.spec), self._clock.now()
        allowed = 1 if fleet.failures else self._directory.limit.per_minute
        if fleet.failures and now < fleet.try_at:
            allowed = 0
        elif not fleet.failures:
            allowed = max(0, allowed - await self._fleet.asked_lately())
        return Bounds(
            most=template.spec.max_nodes if runner.max_runners is None else runner.max_runners,
            min_idle=runner.min_idle,
            idle_timeout=template.spec.idle_timeout,
            age_most=template.spec.max_runtime / 2,
            reuses=template.spec.pools,
            warm=fleet.warm,
            allowed=allowed,
        )

    def _announce(self, heard: _Heard, found: int) -> None:
        if found != heard.capacity:
            heard.capacity = found
            self._changed.set()

    async def _acquired(
        self, session: SetSession, heard: _Heard, taken: Sequence[Message]
    ) -> Sequence[Message]:
        """Acquire offered jobs (GHES), no more than fit. Return messages with offers that must wait."""
        waiting: list[Message] = []
        room = heard.capacity - heard.statistics.total_assigned_jobs
        for message in taken:
            offered = [each.runner_request_id for each in _entries(message) if each.message_type == AVAILABLE]
            if not offered:
                continue
            if len(offered) > max(0, room):
                waiting.append(message)
                continue
            room -= len(offered)
            with suppress(Gone):  # where GitHub assigns by itself, there is nothing to acquire
                won = await session.acquire(offered)
                assigned = heard.statistics.total_assigned_jobs + len(won)
                self._count(heard, replace_assigned(heard.statistics, assigned))
        return waiting

    async def _acted(self, found: Plan, fleet: Fleet, template: Template, heard: _Heard) -> None:
        self._check_lease()
        first = fleet.next_number
        await self._fleet.ask(template, range(first, first + found.ask))
        for each in found.cancel:
            await self._fleet.release(each.operation_id, "not-needed")
        for each in found.retire:
            self._check_lease()
            await self._retire(each, heard)

    async def _retire(self, runner: SetRunnerState, heard: _Heard) -> None:
        """Remove an idle runner: first its registration, by GitHub's word that it is idle; then its node."""
        registered = await self._sets.runner(self._spec.scope, runner.name)
        if registered is not None:
            try:
                await self._sets.remove_runner(self._spec.scope, registered.id)
            except RunnerBusy:
                heard.busy.add(runner.name)
                return
        logger.info("removed an idle runner", extra={"set": self._spec.name, "runner": runner.name})
        await self._fleet.release(runner.operation_id, "idle")

    # --- what is told ---------------------------------------------------------------------------------

    def _why(self, found: Plan, fleet: Fleet, bounds: Bounds, heard: _Heard) -> str:
        """Return what keeps jobs waiting, or what an operator should know."""
        words = list(self._notes)
        waits = max(0, heard.statistics.total_assigned_jobs - heard.statistics.total_running_jobs)
        if heard.problem:
            words.insert(0, heard.problem)
        if found.missing > found.ask and fleet.failures:
            words.insert(0, f"the last {fleet.failures} provisions failed: {fleet.why}")
        elif found.missing > found.ask and bounds.allowed < found.missing:
            limit = self._directory.limit.per_minute
            words.insert(
                0, f"{found.missing} runners are to come: Muster registers {limit} in a minute at most"
            )
        if waits and found.retire:
            words.insert(0, f"{waits} jobs wait at GitHub, and it gives idle runners none of them")
        return "; ".join(words)

    async def _trouble(self, error: Exception) -> None:
        state = "refused" if isinstance(error, Refused) else TROUBLED
        with suppress(StoreUnavailable):
            await self._tell(state, str(error))

    async def _tell(
        self,
        state: str,
        problem: str,
        said: Statistics | None = None,
        *,
        plan: Plan | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """Store the set's counts and state, for all replicas to show."""
        now, said = self._clock.now(), said or Statistics()
        counts = SourceCounts(
            source=SOURCE,
            queue=self._queue,
            at=now,
            scope=str(self._spec.scope),
            template=self._template,
            state=state,
            problem=problem,
            available=said.total_available_jobs,
            assigned=said.total_assigned_jobs,
            running=said.total_running_jobs,
            registered=said.total_registered_runners,
            busy=said.total_busy_runners,
            idle=said.total_idle_runners,
            least=0 if bounds is None else bounds.min_idle,
            most=None if bounds is None else bounds.most,
            desired=0 if plan is None else plan.target,
        )
        before = self._told
        if before is None or now >= before.at + TELL_EVERY or replace(counts, at=before.at) != before:
            await self._given.jobs.note_counts(counts)
            self._told = counts

    def _check_lease(self) -> None:
        if not self._held():
            raise LeaseOver(f"the lease of scale set {self._spec.name} is over")


def _entries(message: Message) -> Sequence[JobEntry]:
    try:
        return message.entries()
    except ValueError:
        return ()


def _known(runner: SetRunnerState, heard: _Heard) -> SetRunnerState:
    return replace(runner, busy=runner.name in heard.busy, spent=runner.name in heard.spent)


def replace_assigned(said: Statistics, assigned: int) -> Statistics:
    return msgspec.structs.replace(said, total_assigned_jobs=assigned)
