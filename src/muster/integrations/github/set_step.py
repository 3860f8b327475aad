"""One step for a scale set: take what came, read our runners, plan, act, and only then acknowledge.

A crash may fall between any two acts. The next session gets every message that was not acknowledged, and
statistics of the whole set. Runners are asked for by number, so none comes twice.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from muster.domain.errors import Conflict, MusterError
from muster.domain.jobs import placed
from muster.domain.template import Template
from muster.integrations.github.actions_service import Gone, RunnerBusy
from muster.integrations.github.scale_set_shapes import (
    AVAILABLE,
    COMPLETED,
    STARTED,
    JobEntry,
    Message,
    time_of,
)
from muster.integrations.github.scale_sets import SetSession, SetSpec
from muster.integrations.github.set_directory import SetDirectory
from muster.integrations.github.set_fleet import Fleet, SetFleet
from muster.integrations.github.set_heard import Heard, entries_of
from muster.integrations.github.set_jobs import believable, sightings
from muster.integrations.github.set_report import LISTENING, SetReport
from muster.integrations.github.set_scaling import Bounds, Plan, SetRunnerState, capacity, plan
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext, Held

logger = logging.getLogger(__name__)

OFFERS_EVERY = 30.0
"""Seconds between two looks for offered jobs (GHES) whose message never came."""


class LeaseOver(MusterError):
    """Another replica may listen to the set by now: do nothing more."""


@dataclass(slots=True)
class SetLease:
    """The lease of a scale set's listener: who acts must hold it."""

    held: Held = lambda: True

    def check(self) -> None:
        """Raise LeaseOver if the lease is over, as after a pause of this process."""
        if not self.held():
            raise LeaseOver("the lease of this scale set is over")


class SetStep:
    def __init__(
        self,
        given: DutyContext,
        directory: SetDirectory,
        report: SetReport,
        lease: SetLease,
        *,
        installation_id: str,
    ) -> None:
        self._given = given
        self._clock = given.clock
        self._directory = directory
        self._report = report
        self._lease = lease
        self._spec: SetSpec = report.spec
        self._installation = installation_id
        self._fleet = SetFleet(given, report.template, installation_id)
        self.remarks: tuple[str, ...] = ()
        """What an operator should know of the set, although it works."""
        self.state = LISTENING

    async def take(self, session: SetSession, heard: Heard) -> None:
        """Do all that is due now. Raises ProviderError, StoreUnavailable and LeaseOver; may be repeated."""
        taken = list(heard.inbox)
        fresh = [message for message in taken if message.message_id not in heard.read]
        entries = [entry for message in fresh for entry in entries_of(message)]
        for message in fresh:
            await self._count(session, heard, message)
        template = await self._given.store.template(self._report.template)
        fleet = await self._fleet.read(template)
        await self._record(entries, fleet)
        await self._prolong(entries, fleet, template)
        heard.follow(entries)
        heard.read.update(message.message_id for message in fresh)
        heard.capacity = capacity(fleet.room, _most(template))
        waiting = await self._acquire(session, heard, taken)
        bounds = await self._bounds(template, fleet, heard)
        found = plan(heard.demand, heard.know(fleet.runners), bounds, now=self._clock.now())
        await self._act(found, fleet, template, heard)
        await self._acknowledge(session, heard, [each for each in taken if each not in waiting])
        words = self._why(found, fleet, bounds, heard)
        failing = bool(heard.problem)
        await self._report.tell(
            self.state, words, heard.statistics, plan=found, bounds=bounds, failing=failing
        )

    # --- what came --------------------------------------------------------------------------------

    async def _count(self, session: SetSession, heard: Heard, message: Message) -> None:
        said, entries = message.statistics, entries_of(message)
        if said is None:
            return
        if believable(said, entries):
            heard.count(said, now=self._clock.now())
            return
        before = heard.statistics.total_assigned_jobs
        heard.count(await session.refresh() or said, now=self._clock.now())
        if not heard.statistics.total_assigned_jobs:
            waits = sum(entry.message_type != COMPLETED for entry in entries)
            heard.count_assigned(max(before, waits), now=self._clock.now())

    async def _record(self, entries: Sequence[JobEntry], fleet: Fleet) -> None:
        """Note what jobs do, and on which nodes: a short job's node may be another's soon."""
        jobs, now = self._given.jobs, self._clock.now()
        seen = list(sightings(entries, queue=self._report.queue, installation_id=self._installation))
        for job in await jobs.note(seen, now=now) if seen else ():
            place = None if job.assignment_id is None else fleet.places.get(job.assignment_id)
            if place is not None and job.node_id is None:
                with suppress(Conflict):
                    await jobs.write(
                        placed(
                            job,
                            node_id=place.node_id,
                            operation_id=place.operation_id,
                            warm=place.warm,
                            now=now,
                            template=self._report.template,
                        )
                    )

    async def _prolong(self, entries: Sequence[JobEntry], fleet: Fleet, template: Template) -> None:
        """Give each job its whole time from its start, however long its runner had waited."""
        for entry in entries:
            node = fleet.nodes.get(entry.runner_name or "")
            if entry.message_type == STARTED and node is not None:
                started = time_of(entry.runner_assign_time) or self._clock.now()
                await self._fleet.prolong(node, until=started + template.spec.max_runtime)

    # --- what to do -------------------------------------------------------------------------------

    async def _bounds(self, template: Template, fleet: Fleet, heard: Heard) -> Bounds:
        runner = TEMPLATE.of(template.spec)
        wanted = bool(heard.demand.assigned or runner.min_idle)
        return Bounds(
            most=_most(template),
            min_idle=runner.min_idle,
            idle_timeout=template.spec.idle_timeout,
            age_most=template.spec.max_runtime / 2,
            reuses=template.spec.pools,
            warm=fleet.warm,
            allowed=await self._allowed(fleet) if wanted else 0,
        )

    async def _allowed(self, fleet: Fleet) -> int:
        """Return how many runners may be asked for now. After failures: one, and only after a pause."""
        if fleet.failures:
            return int(self._clock.now() >= fleet.try_at)
        return max(0, self._directory.limit.per_minute - await self._fleet.asked_lately())

    async def _acquire(
        self, session: SetSession, heard: Heard, taken: Sequence[Message]
    ) -> Sequence[Message]:
        """Acquire offered jobs (GHES), no more than fit. Return messages with offers that must wait."""
        waiting: list[Message] = []
        for message in taken:
            offers = [each for each in entries_of(message) if each.message_type == AVAILABLE]
            left = [each.runner_request_id for each in offers if each.runner_request_id not in heard.tried]
            fits = left[: self._room(heard)]
            await self._win(session, heard, fits)
            heard.tried.update(fits)
            if len(fits) < len(left):
                waiting.append(message)
        now = self._clock.now()
        if waiting and now >= heard.looked_at + OFFERS_EVERY:
            # Our own count may be too high, and without room no message corrects it.
            heard.looked_at = now
            heard.count(await session.refresh() or heard.statistics, now=now)
        if heard.statistics.total_available_jobs and not taken and now >= heard.looked_at + OFFERS_EVERY:
            # Offers stay although their message is gone.
            heard.looked_at = now
            with suppress(Gone):
                await self._win(session, heard, await session.acquirable())
        return waiting

    def _room(self, heard: Heard) -> int:
        return max(0, heard.capacity - heard.statistics.total_assigned_jobs)

    async def _win(self, session: SetSession, heard: Heard, offered: Sequence[int]) -> None:
        offered = offered[: self._room(heard)]
        if not offered:
            return
        with suppress(Gone):  # where GitHub assigns by itself, there is nothing to acquire
            won = await session.acquire(offered)
            heard.count_assigned(heard.statistics.total_assigned_jobs + len(won), now=self._clock.now())

    async def _act(self, found: Plan, fleet: Fleet, template: Template, heard: Heard) -> None:
        self._lease.check()
        first = fleet.next_number
        await self._fleet.ask(template, range(first, first + found.ask))
        for each in found.cancel:
            await self._fleet.release(each.operation_id, "not-needed")
        for each in found.retire:
            self._lease.check()
            await self._retire(each, heard)

    async def _retire(self, runner: SetRunnerState, heard: Heard) -> None:
        """Remove an idle runner: first its registration, by GitHub's word that it is idle; then its node."""
        registered = await self._directory.runner(self._spec, runner.name)
        if registered is not None:
            self._lease.check()
            try:
                await self._directory.sets.remove_runner(self._spec.scope, registered.id)
            except RunnerBusy:
                heard.busy.add(runner.name)
                return
        if heard.waiting_since is not None:
            heard.passed_over += 1
        logger.info("removed an idle runner", extra={"set": self._spec.name, "runner": runner.name})
        await self._fleet.release(runner.operation_id, "idle")

    async def _acknowledge(self, session: SetSession, heard: Heard, done: Sequence[Message]) -> None:
        heard.inbox = [message for message in heard.inbox if message not in done]
        heard.read &= {message.message_id for message in heard.inbox}
        for message in done:
            self._lease.check()
            await session.acknowledge(message.message_id)

    def _why(self, found: Plan, fleet: Fleet, bounds: Bounds, heard: Heard) -> str:
        """Return what keeps jobs waiting, and what an operator should know."""
        words: list[str] = []
        short = found.missing > found.ask
        if heard.waiting and heard.passed_over:
            words.append(f"{heard.waiting} jobs wait at GitHub, and it gives idle runners none of them")
        if short and fleet.failures:
            words.append(f"the last {fleet.failures} provisions failed: {fleet.why}")
        elif short and bounds.allowed < found.missing:
            limit = self._directory.limit.per_minute
            words.append(f"{found.missing} runners are to come: Muster registers {limit} in a minute at most")
        if heard.problem:
            words.append(heard.problem)
        return "; ".join([*words, *self.remarks])


def _most(template: Template) -> int:
    """Return how many runners the set may have at once."""
    runner = TEMPLATE.of(template.spec)
    return template.spec.max_nodes if runner.max_runners is None else runner.max_runners
