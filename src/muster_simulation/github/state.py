"""What there is at the small GitHub, and what happens to it. Thread-safe; time comes from outside.

A job is given to the first runner that asks for one and has all of its labels. A job that a scale set was
assigned goes to any runner of that set. A runner is online while its
session is open and it was heard of lately. An ephemeral one is gone after its job.
"""

import base64
import hashlib
import json
import secrets
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster_simulation.github.exchange import Fault
from muster_simulation.github.scalesets import ScaleSets

ONLINE_FOR = 15.0
LASTS = 3600.0


@dataclass(slots=True, kw_only=True)
class Runner:
    id: int
    scope: str
    name: str
    labels: tuple[str, ...]
    group: int
    ephemeral: bool
    credential: str
    session: bool = False
    seen_at: float = 0.0
    busy: bool = False
    set_id: int | None = None
    """The scale set that it belongs to."""


@dataclass(slots=True, kw_only=True)
class Job:
    id: int
    repository: str
    run_id: int
    attempt: int
    name: str
    labels: tuple[str, ...]
    script: str
    status: str = "queued"
    conclusion: str | None = None
    runner: str = ""
    runner_id: int = 0
    output: str = ""
    queued_at: float = 0.0
    guid: str
    """How messages of scale sets name it."""
    set_id: int | None = None
    """The scale set that it is assigned to."""
    assigned_at: float = 0.0
    started_at: float = 0.0
    finished_at: float = 0.0


@dataclass(slots=True, kw_only=True)
class Run:
    repository: str
    id: int
    attempt: int = 1
    cancelled: bool = False
    held: bool = True
    """There is more to come than the jobs show: it isn't over."""
    jobs: list[Job] = field(default_factory=list)


class GitHubState:
    def __init__(
        self,
        now: Callable[[], float],
        *,
        url: str = "http://github.test",
        secret: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.now = now
        self.secret = secret
        """Makes 32 random hexadecimal digits."""
        self.url = url
        self.changed = threading.Condition()
        self.tokens: set[str] = {"a-personal-token"}
        self.apps: dict[str, str] = {}
        """The public key of each app, as PEM."""
        self.installations: dict[int, tuple[str, str]] = {}
        """App and account."""
        self.lent: dict[str, tuple[int, float]] = {}
        self.groups: dict[str, dict[str, int]] = {}
        """Of organisations and enterprises: names and ids, beside the default one."""
        self.enterprises: dict[str, set[str]] = {}
        """The organisations of each enterprise, in lower case."""
        self.missing: set[str] = set()
        """Scopes that no credential may see."""
        self.registrations: dict[str, tuple[str, float]] = {}
        self.runners: dict[int, Runner] = {}
        self.runs: dict[tuple[str, int], Run] = {}
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str, int]] = []
        """Method, path and status of every request, in order."""
        self.limit: int | None = None
        """Requests that each credential has until `resets_at`; None: without a limit."""
        self.resets_at = 0.0
        self.spent: dict[str, int] = {}
        self.never_online = False
        self.public: set[str] = set()
        """Repositories that all the world can see."""
        self.sets = ScaleSets(self)
        self._numbers = 1000

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def guid(self) -> str:
        return str(uuid.UUID(hex=self.secret()))

    def fault(self, pattern: str, status: int = 0, **more: object) -> None:
        with self.changed:
            self.faults.append(Fault(pattern=pattern, status=status, **more))  # type: ignore[arg-type]  # its fields

    def asked(self, pattern: str) -> int:
        """Return how many requests had this in `METHOD path`."""
        return sum(1 for method, path, _ in list(self.calls) if pattern in f"{method} {path}")

    def covers(self, scope: str, repository: str) -> bool:
        """Return whether runners of the scope serve jobs of the repository."""
        owner = repository.partition("/")[0].lower()
        enterprise = scope.lower().removeprefix("enterprises/")
        return scope.lower() in (repository.lower(), owner) or owner in self.enterprises.get(enterprise, ())

    def groups_of(self, scope: str) -> dict[str, int]:
        """Return the runner groups of an organisation or enterprise."""
        account = scope if scope.startswith("enterprises/") else scope.partition("/")[0]
        return {"Default": 1, **self.groups.get(account, {})}

    # --- runners ----------------------------------------------------------------------------------

    def registration(self, scope: str) -> str:
        token = "REG" + self.secret().upper()
        self.registrations[token] = (scope, self.now() + LASTS)
        return token

    def register(
        self,
        scope: str,
        name: str,
        labels: Iterable[str],
        *,
        group: int = 1,
        ephemeral: bool,
        set_id: int | None = None,
    ) -> Runner:
        with self.changed:
            runner = Runner(
                id=self.number(),
                scope=scope,
                name=name,
                labels=tuple(labels),
                group=group,
                ephemeral=ephemeral,
                credential=self.secret(),
                set_id=set_id,
            )
            self.runners[runner.id] = runner
            return runner

    def of(self, scope: str) -> list[Runner]:
        with self.changed:
            return [runner for runner in self.runners.values() if runner.scope.lower() == scope.lower()]

    def named(self, scope: str, name: str) -> Runner | None:
        return next((runner for runner in self.of(scope) if runner.name == name), None)

    def online(self, runner: Runner) -> bool:
        lately = self.now() - runner.seen_at < ONLINE_FOR
        return runner.session and lately and not self.never_online

    def connect(self, runner: Runner) -> None:
        """Connect a runner, as it does when it starts."""
        with self.changed:
            runner.session, runner.seen_at = True, self.now()

    def holder(self, credential: str) -> Runner | None:
        with self.changed:
            return next((each for each in self.runners.values() if each.credential == credential), None)

    def remove(self, runner: Runner) -> None:
        """Remove a runner, also as an administrator of GitHub does without Muster."""
        with self.changed:
            self.runners.pop(runner.id, None)
            self.changed.notify_all()

    def just_in_time(self, runner: Runner) -> str:
        """Return files of the runner, by name, as the real GitHub packs them."""
        settings = {"agentId": runner.id, "agentName": runner.name, "serverUrl": self.url, "ephemeral": True}
        files = {".runner": settings, ".credentials": {"scheme": "fake", "data": runner.credential}}
        packed = {name: _encoded(json.dumps(content)) for name, content in files.items()}
        return _encoded(json.dumps(packed))

    def configured(self, jit: str) -> Runner | None:
        """Return the runner of a just-in-time configuration. None: its registration is gone."""
        files = json.loads(base64.b64decode(jit))
        credential = str(json.loads(base64.b64decode(files[".credentials"]))["data"])
        return self.holder(credential)

    # --- runs and jobs ----------------------------------------------------------------------------

    def begin(self, repository: str, *, run_id: int | None = None) -> Run:
        with self.changed:
            run = Run(repository=repository, id=run_id or self.number() * 1_000_003)
            self.runs[repository, run.id] = run
            return run

    def queue(self, run: Run, name: str, labels: Iterable[str], script: str = "true") -> Job:
        return self.queue_all(run, [name], labels, script)[0]

    def queue_all(
        self, run: Run, names: Iterable[str], labels: Iterable[str], script: str = "true"
    ) -> list[Job]:
        """Queue jobs in one moment, as a matrix does."""
        wanted = tuple(labels)
        with self.changed:
            jobs = [
                Job(
                    id=self.number(),
                    repository=run.repository,
                    run_id=run.id,
                    attempt=run.attempt,
                    name=name,
                    labels=wanted,
                    script=script,
                    queued_at=self.now(),
                    guid=self.guid(),
                )
                for name in names
            ]
            run.jobs += jobs
            self.sets.share_out()
            self.changed.notify_all()
            return jobs

    def complete(self, run: Run) -> None:
        """Note that no more jobs are to come."""
        with self.changed:
            run.held = False
            self.changed.notify_all()

    def cancel(self, run: Run) -> None:
        with self.changed:
            run.cancelled, run.held = True, False
            for job in run.jobs:
                if job.status == "queued":
                    job.status, job.conclusion = "completed", "cancelled"
                    self.sets.completed(job, "canceled")
            self.changed.notify_all()

    def job(self, repository: str, job_id: int) -> Job | None:
        runs = (run for (name, _), run in self.runs.items() if name == repository)
        return next((job for run in runs for job in run.jobs if job.id == job_id), None)

    def conclusion(self, run: Run) -> str:
        """Return how a run that is over ended: as the worst of its jobs."""
        ends = [job.conclusion for job in self.latest(run)]
        return next((each for each in ("failure", "cancelled") if each in ends), "success")

    def rerun_failed(self, run: Run, *, only: Job | None = None) -> list[Job]:
        """Start a new attempt with the failed jobs, under their old labels; the others aren't repeated."""
        with self.changed:
            failed = [job for job in self.latest(run) if job.conclusion != "success"]
            if only is not None:
                failed = [only]
            run.attempt += 1
            run.cancelled = False
            return [self.queue(run, job.name, job.labels, job.script) for job in failed]

    def latest(self, run: Run) -> list[Job]:
        return [job for job in run.jobs if job.attempt == run.attempt]

    def status(self, run: Run) -> str:
        jobs = self.latest(run)
        if not run.held and all(job.status == "completed" for job in jobs):
            return "completed"
        started = any(job.status != "queued" for job in jobs)
        return "in_progress" if started or not jobs else "queued"

    def take(self, runner: Runner, wait: float) -> Job | None:
        """Return the next job for a runner. None: none came within `wait` seconds, or the runner is gone."""
        with self.changed:
            self.connect(runner)
            self.changed.wait_for(lambda: runner.id not in self.runners or self._next(runner), wait)
            runner.seen_at = self.now()
            job = self._next(runner) if runner.id in self.runners else None
            if job is not None:
                job.status, job.runner, runner.busy = "in_progress", runner.name, True
                job.runner_id, job.started_at = runner.id, self.now()
                self.sets.started(job)
                self.changed.notify_all()
            return job

    def _next(self, runner: Runner) -> Job | None:
        if runner.set_id is not None:
            assigned = (job for job in self.sets.jobs(runner.set_id) if job.status == "queued")
            return next(assigned, None)
        has = {label.lower() for label in runner.labels}
        for run in self.runs.values():
            if self.covers(runner.scope, run.repository):
                for job in run.jobs:
                    if (
                        job.status == "queued"
                        and job.set_id is None
                        and {label.lower() for label in job.labels} <= has
                    ):
                        return job
        return None

    def finish(self, runner: Runner, job_id: int, conclusion: str, output: str) -> None:
        with self.changed:
            runner.busy = False
            for run in self.runs.values():
                for job in run.jobs:
                    if job.id == job_id:
                        job.status, job.conclusion, job.output = "completed", conclusion, output
                        job.finished_at = self.now()
                        self.sets.completed(job, {"success": "succeeded"}.get(conclusion, "failed"))
            if runner.ephemeral:
                self.runners.pop(runner.id, None)
            self.changed.notify_all()

    def wait(self, holds: Callable[[], object], within: float = 60.0) -> bool:
        with self.changed:
            return bool(self.changed.wait_for(holds, within))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def etag(body: bytes) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
