"""GitHub in virtual time: requests arrive late or never, polls wait, and jobs outlive dead machines.

Owns what GitHub does by itself: it takes assignments back, fails jobs of silent runners, and at times drops
sessions, sets and tokens. What exists there is `muster_simulation.github`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import httpx

from muster_simulation.github import GitHubState, Job, Runner, ScaleSet
from muster_simulation.github.exchange import Said
from muster_simulation.github.routes import answer
from muster_simulation.jobs.faults import GitHubFaults
from muster_simulation.life import Life, current_life, outside
from muster_simulation.trace import FaultCounts

HOUR = 3600.0
WINDOW = 50.0
"""Seconds that a poll waits for a message."""
LOOK_EVERY = 0.5
UNTAKEN = 300.0
"""Seconds after which an assignment that no runner took is taken back and made again."""
SILENT = 600.0
"""Seconds of a runner's silence after which its job has failed."""
AFTER = 15.0
"""Seconds between two looks for these."""
RETRY_AFTER = "5"
_QUEUE = "/_actions/queue/"
_HELD = 202
_REFUSALS = (429, 500, 503)
PATIENCE = 60.0
"""Seconds that a caller waits who says nothing about it."""


class Watcher(Protocol):
    """Is told what reaches GitHub, in the moment in which it does."""

    def sent(self, owner: str, method: str, path: str) -> None:
        """A replica sends a request."""
        ...

    def announced(self, scale_set: ScaleSet, capacity: int) -> None:
        """A poll told a capacity."""
        ...

    def registered(self, scale_set: ScaleSet) -> None:
        """A runner was registered for the set."""
        ...


class Request:
    def __init__(self, owner: str, sender: Life | None, request: httpx.Request, body: bytes) -> None:
        self.owner = owner
        self.method = request.method
        self.path = request.url.path
        self.target = request.url.raw_path.decode()
        self.query = request.url.query
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.body = body
        self._sender = sender

    @property
    def connected(self) -> bool:
        """Return whether the caller's process still lives: else its connection broke."""
        return self._sender is None or self._sender.alive


class SimulatedGitHub:
    def __init__(
        self,
        state: GitHubState,
        *,
        random: Random,
        counts: FaultCounts,
        faults: GitHubFaults,
        watcher: Watcher,
        told: Callable[[Job, str], None],
    ) -> None:
        """`told`: hears of each job that begins to wait, runs or is over."""
        self.state = state
        self.faults = faults
        self.disturbed_at = 0.0
        """When something went wrong here last."""
        self.told = told
        self._random = random
        self._counts = counts
        self._watcher = watcher
        self._working: dict[int, Runner] = {}
        self._begun: dict[int, None] = {}
        """Jobs of later attempts whose beginning was told."""

    # --- requests ---------------------------------------------------------------------------------

    def send(self, request: Request, reply: "asyncio.Future[Said]") -> None:
        self._watcher.sent(request.owner, request.method, request.path)
        if self.strikes(self.faults.lost_request, "request lost"):
            return
        loop = asyncio.get_running_loop()
        outside(loop.call_later, self._latency(), self._arrive, request, reply)

    def _arrive(self, request: Request, reply: "asyncio.Future[Said]") -> None:
        if not request.connected:
            return
        if self.strikes(self.faults.refused, "refused"):
            status = self._random.choice(_REFUSALS)
            headers = {"retry-after": RETRY_AFTER} if status == _REFUSALS[0] else {}
            self._deliver(reply, Said(status=status, data={"message": "try again"}, headers=headers))
            return
        said = answer(self.state, request.method, request.target, request.headers, request.body)
        self._show(request, said)
        if said.status == _HELD and request.path.startswith(_QUEUE):
            self._hold(request, reply, self.state.now() + WINDOW)
        elif not self.strikes(self.faults.lost_reply, "reply lost"):
            self._deliver(reply, said)

    def _show(self, request: Request, said: Said) -> None:
        if request.path.startswith(_QUEUE) and request.method == "GET" and said.status in (200, _HELD):
            found = self.state.sets.known.get(int(request.path.rpartition("/")[2]))
            if found is not None:
                self._watcher.announced(found, found.capacity)
        elif "/runnerscalesets/" in request.path and request.path.endswith("/generatejitconfig"):
            found = self.state.sets.known.get(int(request.path.split("/")[-2]))
            if found is not None and said.status == 200:  # noqa: PLR2004 — registered
                self._watcher.registered(found)
        elif "/rerun" in request.path and said.status == 201:  # noqa: PLR2004 — a new attempt
            for job in self.jobs():
                if job.attempt > 1 and job.status == "queued" and job.id not in self._begun:
                    self._begun[job.id] = None
                    self.told(job, "queued")

    def _hold(self, request: Request, reply: "asyncio.Future[Said]", until: float) -> None:
        """Answer a poll when there is a message, or at the end of its window."""
        if reply.done() or not request.connected:
            return
        set_id = int(request.path.rpartition("/")[2])
        if self.state.now() >= until:
            self._deliver(reply, Said(status=_HELD))
        elif self.state.sets.has_news(set_id, request.query):
            said = answer(self.state, request.method, request.target, request.headers, request.body)
            if not self.strikes(self.faults.lost_reply, "reply lost"):
                self._deliver(reply, said)
        else:
            asyncio.get_running_loop().call_later(LOOK_EVERY, self._hold, request, reply, until)

    def _deliver(self, reply: "asyncio.Future[Said]", said: Said) -> None:
        asyncio.get_running_loop().call_later(self._latency(), _settle, reply, said)

    # --- jobs -------------------------------------------------------------------------------------

    def begins(self, runner: Runner, job: Job) -> None:
        """A runner begins a job."""
        self._working[job.id] = runner
        self.told(job, "in_progress")

    def ends(self, job: Job, conclusion: str) -> None:
        """A job is over, as its runner says, or as GitHub finds."""
        runner = self._working.pop(job.id, None)
        if runner is not None:
            self.state.finish(runner, job.id, conclusion, "")
            self.told(job, "completed")

    def works(self, job: Job) -> bool:
        """Return whether GitHub still waits for the job's end."""
        return job.id in self._working

    async def look_after_jobs(self) -> None:
        """Fail jobs whose runner is silent; assign jobs anew that no runner took."""
        while True:
            await asyncio.sleep(AFTER)
            now = self.state.now()
            for job_id, runner in list(self._working.items()):
                if now - runner.seen_at > SILENT:
                    self._counts.add("github: job without a runner")
                    self.ends(self._job(job_id), "failure")
            for job in self.jobs():
                if job.status == "queued" and job.set_id is not None and now - job.assigned_at > UNTAKEN:
                    self._counts.add("github: assignment taken back")
                    self.state.sets.take_back(job)

    def jobs(self) -> list[Job]:
        return [job for run in self.state.runs.values() for job in run.jobs]

    def _job(self, job_id: int) -> Job:
        return next(job for job in self.jobs() if job.id == job_id)

    # --- what goes wrong --------------------------------------------------------------------------

    async def make_trouble(self) -> None:
        while self.faults.troubles:
            await asyncio.sleep(self._random.expovariate(self.faults.troubles / HOUR))
            if self.faults.troubles:
                self._trouble()

    def _trouble(self) -> None:
        sets = self.state.sets
        troubles: list[tuple[str, Callable[[], None]]] = [
            ("admin tokens end", lambda: sets.expire("admin")),
            ("queue tokens end", lambda: sets.expire("queue")),
        ]
        for found in sets.known.values():
            troubles += [
                ("session dropped", lambda found=found: sets.evict(found)),  # type: ignore[misc]  # no hint
                ("set vanished", lambda found=found: sets.vanish(found)),  # type: ignore[misc]
                ("numbers begin again", lambda found=found: sets.restart_ids(found)),  # type: ignore[misc]
                ("messages repeat", lambda found=found: sets.repeat(found)),  # type: ignore[misc]
            ]
        kind, strike = self._random.choice(troubles)
        self._note(kind)
        strike()

    def strikes(self, probability: float, kind: str) -> bool:
        if probability <= 0.0 or self._random.random() >= probability:
            return False
        self._note(kind)
        return True

    def _note(self, kind: str) -> None:
        self.disturbed_at = self.state.now()
        self._counts.add(f"github: {kind}")

    def _latency(self) -> float:
        return self._random.uniform(*self.faults.latency)


def _settle(reply: "asyncio.Future[Said]", said: Said) -> None:
    if not reply.done():
        reply.set_result(said)


class ReplicaTransport(httpx.AsyncBaseTransport):
    def __init__(self, github: SimulatedGitHub, owner: str, blow: Callable[[str], Awaitable[None]]) -> None:
        self._github = github
        self._owner = owner
        self._blow = blow

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._blow(self._owner)
        asked = Request(self._owner, current_life(), request, await request.aread())
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Said] = loop.create_future()
        patience = request.extensions.get("timeout", {}).get("read") or PATIENCE
        expiry = outside(loop.call_later, patience, _give_up, reply)
        self._github.send(asked, reply)
        try:
            said = await reply
        finally:
            expiry.cancel()
        await self._blow(self._owner)
        return httpx.Response(said.status, headers=dict(said.headers), content=said.body)


def _give_up(reply: "asyncio.Future[Said]") -> None:
    if not reply.done():
        reply.set_exception(httpx.ReadTimeout("no answer in time"))
        reply.exception()  # the caller may have died: the error has no other reader
