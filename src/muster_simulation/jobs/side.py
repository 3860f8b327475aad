"""All that a world with jobs has beside nodes and callers: GitHub, its people, webhooks, and their rules."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from muster.domain.events import Event
from muster.integrations.github.parts import Account, GitHub, JobServing
from muster.integrations.github.requests import JOB, SET_RUNNER, WORKFLOW
from muster.integrations.github.runtime import RunnerPackage
from muster.integrations.github.set_listener import SetListeners
from muster.integrations.github.tables import TEMPLATE
from muster.plane import Ports
from muster.ports.clock import Clock
from muster.ports.jobs import JobStore
from muster_simulation.github import GitHubState
from muster_simulation.github.webhooks import SECRET
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.job_rules import JobRules
from muster_simulation.invariants.judge import Judge
from muster_simulation.jobs.faults import CALM, JobPlan
from muster_simulation.jobs.github import ReplicaTransport, SimulatedGitHub
from muster_simulation.jobs.runner import RunnerProcess
from muster_simulation.jobs.webhooks import WebhookSender
from muster_simulation.jobs.workflows import LABEL_REPOSITORY, SET_REPOSITORY, People
from muster_simulation.life import current_life, outside
from muster_simulation.network import Network
from muster_simulation.replicas import Replicas
from muster_simulation.storage import StorePath
from muster_simulation.trace import FaultCounts

URL = "http://github.test"
TOKEN = "a-personal-token"  # noqa: S105 — of the simulated GitHub
LOOK = 30.0
REST = 2 * 3600.0
"""Within so much calm all jobs are over."""


class JobsPath:
    """The jobs in the store as one replica reaches them."""

    def __init__(self, inner: JobStore, path: StorePath) -> None:
        self._inner = inner
        self._path = path

    def as_store(self) -> JobStore:
        return cast(JobStore, self)

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._path.beside, verb, getattr(self._inner, verb))


class JobSide:
    def __init__(
        self,
        plan: JobPlan,
        *,
        installation_id: str,
        judge: Judge,
        clock: Clock,
        network: Network,
        replicas: Replicas,
        random: Callable[[str], Random],
        counts: FaultCounts,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._plan = plan
        self._installation_id = installation_id
        self._clock = clock
        self._replicas = replicas
        self._counts = counts
        self._spawn = spawn
        self._chance = random("blows")
        secrets = random("secrets")
        state = GitHubState(clock.now, url=URL, secret=lambda: f"{secrets.getrandbits(128):032x}")
        state.sets.offers = plan.offers
        state.tokens = {TOKEN}
        self.rules = JobRules(
            judge.context,
            plan,
            total_cap=lambda: judge.queues.total_cap,
            guarded=judge.guarded,
            cancelled=lambda: self._people.cancelled,
        )
        self._webhooks = WebhookSender(
            network,
            random=random("webhooks"),
            counts=counts,
            faults=plan.faults,
            replays=plan.replays,
            spawn=spawn,
        )
        self.github = SimulatedGitHub(
            state,
            random=random("github"),
            counts=counts,
            faults=plan.faults,
            watcher=self.rules,
            told=lambda job, action: (
                None if job.repository == SET_REPOSITORY else self._webhooks.send(job, action)
            ),
        )
        self.rules.site = self.github
        self._people = People(plan, self.github, random=random("people"), counts=counts, spawn=spawn)

    def joined(self, ports: Ports, owner: str, path: StorePath) -> Ports:
        """Return a replica's ports with all that GitHub contributes to them. Each replica has its own."""
        github = GitHub(
            Account(url=URL, api_url=URL, token=TOKEN),
            RunnerPackage(path="/opt/runner"),
            self._clock,
            installation_id=self._installation_id,
            transport=ReplicaTransport(self.github, owner, self._blow),
        )
        serving = JobServing(
            secret=SECRET,
            repositories=[LABEL_REPOSITORY],
            installation_id=self._installation_id,
            registry=github.registry,
        )
        return replace(
            ports,
            jobs=JobsPath(ports.jobs, path).as_store(),
            runtimes={"github": github.runtime},
            duties=(lambda given: github.duties(given, serving),),
            standing=(lambda given: [SetListeners(given, github.directory)],),
            hooks=(serving.hooks,),
            request_parts=(WORKFLOW, JOB, SET_RUNNER),
            template_parts=(TEMPLATE,),
        )

    def process(self, program: str) -> RunnerProcess:
        """Return what a kit's program does on a node."""
        return RunnerProcess(self.github, program)

    async def _blow(self, owner: str) -> None:
        """At times kill or stop the replica that asks, at this very step."""
        if self._chance.random() >= self.github.faults.blows:
            return
        kills = self._chance.random() < self._replicas.share_of_crashes
        outside(self._replicas.strike, owner, kills=kills)
        life = current_life()
        if life is not None and not life.alive:
            await life.die()
        await asyncio.sleep(0)  # one that was stopped stands still here

    def start(self) -> None:
        self._spawn(self._people.work())
        self._spawn(self.github.look_after_jobs())
        self._spawn(self.github.make_trouble())

    def saw(self, event: Event) -> None:
        life = current_life()
        self.rules.event(event, None if life is None else life.name)

    def tick(self, *, calm: bool) -> None:
        self.rules.tick(calm=calm)

    async def come_to_rest(self, wait: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """No more runs and faults; then every job must be served."""
        self.github.faults = self._webhooks.faults = CALM
        self._people.stopped = True
        waited = 0.0
        while left := self.rules.unfinished():
            if waited > REST:
                raise Broken("jobs_are_served", f"after {waited:.0f} s of calm there are {left}")
            await wait(LOOK)
            waited += LOOK

    def remains(self) -> str:
        return self.rules.left_behind()
