"""Runner scale sets: sessions, assigned jobs and the queue of messages of each set.

A set's queue outlives its sessions. A message that was not deleted comes again to the next session. Jobs are
assigned up to the capacity that the last poll named, or offered if `offers` is set, as GHES does it.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from muster_simulation.github.state import GitHubState, Job, Run

FIRST_MESSAGE = 100_000_001
ENTRIES_MOST = 50
NEVER = "0001-01-01T00:00:00Z"


@dataclass(slots=True, kw_only=True)
class Session:
    id: str
    owner: str
    seen_at: float


@dataclass(slots=True, kw_only=True)
class Message:
    id: int
    entries: list[dict[str, Any]]
    delivered: bool = False


@dataclass(slots=True, kw_only=True)
class ScaleSet:
    id: int
    scope: str
    name: str
    group: int
    labels: tuple[str, ...]
    disable_update: bool = True
    session: Session | None = None
    capacity: int = 0
    """As the last poll of this session named it. Each session starts with none."""
    queue: list[Message] = field(default_factory=list)
    next_message: int = FIRST_MESSAGE
    offered: set[int] = field(default_factory=set)
    capacities: list[int] = field(default_factory=list)
    """Of every poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    kind: str
    """admin or queue."""
    about: str
    """A scope, or a session."""
    until: float


class ScaleSets:
    def __init__(self, world: "GitHubState") -> None:
        self._world = world
        self.known: dict[int, ScaleSet] = {}
        self.tokens: dict[str, Token] = {}
        self.window = 0.0
        """Seconds that a poll waits for a message."""
        self.session_life = 91.0
        """Seconds without a poll after which a session ends."""
        self.admin_life = 3600.0
        self.queue_life = 3000.0
        self.offers = False
        """Jobs are offered and must be acquired, as on GHES."""
        self.marks = False
        """Bodies begin with a byte order mark."""
        self.drops_labels = False
        """A set keeps its name alone, as on GHES before 3.18."""
        self.hides_queue = False
        """Sessions come without the address of their queue."""
        self.private_groups: set[int] = set()
        """Groups whose runners get no jobs of public repositories."""
        self.zero_statistics = False
        """Messages come with statistics of zeros, as GitHub once sent them for hours."""
        self.empty_bodies = 0
        """Polls that are answered with 200 and nothing."""
        self.tells_status = True
        """Runners are shown online or offline."""
        self.stale_assigned = 0
        """Jobs that the statistics count although there are none."""

    # --- sets and sessions ------------------------------------------------------------------------

    def make(self, scope: str, name: str, group: int, labels: tuple[str, ...]) -> ScaleSet:
        kept = (name,) if self.drops_labels else labels or (name,)
        made = ScaleSet(id=self._world.number(), scope=scope, name=name, group=group, labels=kept)
        with self._world.changed:
            self.known[made.id] = made
        return made

    def of(self, scope: str) -> list[ScaleSet]:
        with self._world.changed:
            return [each for each in self.known.values() if each.scope.lower() == scope.lower()]

    def vanish(self, scale_set: ScaleSet) -> None:
        """Delete a set with its queue. Its jobs wait for another one."""
        with self._world.changed:
            self.known.pop(scale_set.id, None)
            for job in self.jobs(scale_set.id):
                if job.status == "queued":
                    job.set_id = None
            self.share_out()
            self._world.changed.notify_all()

    def evict(self, scale_set: ScaleSet) -> None:
        """Drop the session, as GitHub does at times."""
        with self._world.changed:
            scale_set.session, scale_set.capacity = None, 0
            self._world.changed.notify_all()

    def open(self, scale_set: ScaleSet, owner: str) -> Session | None:
        """Open a session. None: the set has one that is alive."""
        with self._world.changed:
            if self.alive(scale_set):
                return None
            scale_set.session = Session(id=self._world.guid(), owner=owner, seen_at=self._world.now())
            scale_set.capacity = 0
            return scale_set.session

    def alive(self, scale_set: ScaleSet) -> bool:
        session = scale_set.session
        return session is not None and self._world.now() < session.seen_at + self.session_life

    def token(self, kind: str, about: str) -> str:
        until = self._world.now() + (self.admin_life if kind == "admin" else self.queue_life)
        parts = ({"alg": "none"}, {"exp": int(until), "jti": self._world.secret()})
        made = ".".join([*(_encoded(each) for each in parts), "c2ln"])
        self.tokens[made] = Token(kind=kind, about=about, until=until)
        return made

    def expire(self, kind: str) -> None:
        """End all tokens of a kind now."""
        self.tokens = {text: token for text, token in self.tokens.items() if token.kind != kind}

    # --- messages ---------------------------------------------------------------------------------

    def poll(self, scale_set: ScaleSet, session: Session, *, after: int, capacity: int) -> Message | None:
        """Return the oldest message after this one. None: nothing came, or the session ended."""
        with self._world.changed:
            scale_set.capacity, session.seen_at = capacity, self._world.now()
            scale_set.capacities.append(capacity)
            self.share_out()
            self._world.changed.wait_for(
                lambda: scale_set.session is not session or self._oldest(scale_set, after), self.window
            )
            session.seen_at = self._world.now()
            found = self._oldest(scale_set, after) if scale_set.session is session else None
            if found is not None:
                found.delivered = True
            return found

    def has_news(self, set_id: int, query: bytes) -> bool:
        """Return whether a poll with this query would be answered at once."""
        asked = {name: values[0] for name, values in parse_qs(query.decode()).items()}
        with self._world.changed:
            scale_set = self.known.get(set_id)
            if scale_set is None or scale_set.session is None or scale_set.session.id != asked.get("session"):
                return True
            scale_set.session.seen_at = self._world.now()
            return self._oldest(scale_set, int(asked.get("lastMessageId", "0"))) is not None

    def delete(self, scale_set: ScaleSet, message_id: int) -> bool:
        with self._world.changed:
            kept = [each for each in scale_set.queue if each.id != message_id]
            found, scale_set.queue = len(kept) < len(scale_set.queue), kept
            return found

    def restart_ids(self, scale_set: ScaleSet) -> None:
        """Begin the numbers of messages again, as GitHub does without a word."""
        with self._world.changed:
            scale_set.queue, scale_set.next_message = [], FIRST_MESSAGE

    @staticmethod
    def _oldest(scale_set: ScaleSet, after: int) -> Message | None:
        return next((each for each in scale_set.queue if each.id > after), None)

    def repeat(self, scale_set: ScaleSet) -> None:
        """Put all that is in the queue into it once more, in the reverse order, under new numbers."""
        with self._world.changed:
            for message in reversed(list(scale_set.queue)):
                entries = [dict(each) for each in reversed(message.entries)]
                scale_set.queue.append(Message(id=scale_set.next_message, entries=entries))
                scale_set.next_message += 1
            self._world.changed.notify_all()

    def say(self, scale_set: ScaleSet, entry: dict[str, Any]) -> None:
        """Put any entry into the queue: of an unknown kind, or without sense."""
        with self._world.changed:
            self._tell(scale_set, entry)

    def take_back(self, job: "Job") -> None:
        """Take an assignment back that no runner took in time. GitHub assigns the job again soon."""
        with self._world.changed:
            if job.set_id in self.known and job.status == "queued":
                entry = {**self.entry("JobCompleted", job), "result": "canceled"}
                self._tell(self.known[job.set_id], entry)
                job.set_id = None
                self.share_out()

    def _tell(self, scale_set: ScaleSet, entry: dict[str, Any]) -> None:
        last = scale_set.queue[-1] if scale_set.queue else None
        if last is None or last.delivered or len(last.entries) >= ENTRIES_MOST:
            last = Message(id=scale_set.next_message, entries=[])
            scale_set.next_message += 1
            scale_set.queue.append(last)
        last.entries.append(entry)
        self._world.changed.notify_all()

    def statistics(self, scale_set: ScaleSet) -> dict[str, int]:
        with self._world.changed:
            jobs = [job for job in self.jobs(scale_set.id) if job.status != "completed"]
            runners = [each for each in self._world.runners.values() if each.set_id == scale_set.id]
            return {
                "totalAvailableJobs": sum(1 for _ in self._waiting(scale_set)),
                "totalAcquiredJobs": len(jobs) if self.offers else 0,
                "totalAssignedJobs": len(jobs) + self.stale_assigned,
                "totalRunningJobs": sum(1 for job in jobs if job.status == "in_progress"),
                "totalRegisteredRunners": len(runners),
                "totalBusyRunners": sum(1 for each in runners if each.busy),
                "totalIdleRunners": sum(1 for each in runners if self._world.online(each) and not each.busy),
            }

    # --- jobs -------------------------------------------------------------------------------------

    def jobs(self, set_id: int) -> Iterator["Job"]:
        return (job for run in self._world.runs.values() for job in run.jobs if job.set_id == set_id)

    def share_out(self) -> None:
        """Assign or offer waiting jobs to the sets that have a session and room."""
        with self._world.changed:
            for scale_set in self.known.values():
                if not self.alive(scale_set):
                    continue
                taken = sum(1 for job in self.jobs(scale_set.id) if job.status != "completed")
                waiting = list(self._waiting(scale_set))
                if self.offers:
                    # What was offered and is not acquired yet has its place, too.
                    taken += sum(1 for job in waiting if job.id in scale_set.offered)
                    waiting = [job for job in waiting if job.id not in scale_set.offered]
                for job in waiting[: max(0, scale_set.capacity - taken)]:
                    if self.offers:
                        scale_set.offered.add(job.id)
                        self._tell(scale_set, self.entry("JobAvailable", job))
                    else:
                        self.assign(scale_set, job)

    def assign(self, scale_set: ScaleSet, job: "Job") -> None:
        with self._world.changed:
            job.set_id, job.assigned_at = scale_set.id, self._world.now()
            self._tell(scale_set, self.entry("JobAssigned", job))

    def acquire(self, scale_set: ScaleSet, ids: list[int]) -> list[int]:
        """Assign what is still to be had; return its ids."""
        with self._world.changed:
            won = [job for job in self._waiting(scale_set) if job.id in ids and job.id in scale_set.offered]
            for job in won:
                self.assign(scale_set, job)
            return [job.id for job in won]

    def acquirable(self, scale_set: ScaleSet) -> list[int]:
        """Return the ids of jobs that were offered and not acquired."""
        with self._world.changed:
            return [job.id for job in self._waiting(scale_set) if job.id in scale_set.offered]

    def _waiting(self, scale_set: ScaleSet) -> Iterator["Job"]:
        has = {label.lower() for label in scale_set.labels}
        for run in self._world.runs.values():
            if self._serves(scale_set, run):
                for job in run.jobs:
                    waits = job.status == "queued" and job.set_id is None
                    if waits and {label.lower() for label in job.labels} <= has:
                        yield job

    def _serves(self, scale_set: ScaleSet, run: "Run") -> bool:
        if scale_set.group in self.private_groups and run.repository in self._world.public:
            return False
        return self._world.covers(scale_set.scope, run.repository)

    def started(self, job: "Job") -> None:
        if job.set_id in self.known:
            self._tell(self.known[job.set_id], self.entry("JobStarted", job))

    def completed(self, job: "Job", result: str) -> None:
        job.finished_at = self._world.now()
        if job.set_id in self.known:
            self._tell(self.known[job.set_id], {**self.entry("JobCompleted", job), "result": result})
            self.share_out()

    def entry(self, kind: str, job: "Job") -> dict[str, Any]:
        owner, _, name = job.repository.partition("/")
        return {
            "messageType": kind,
            "runnerRequestId": job.id if self.offers else 0,
            "ownerName": owner,
            "repositoryName": name,
            "jobId": job.guid,
            "jobWorkflowRef": f"{job.repository}/.github/workflows/test.yml@refs/heads/main",
            "jobDisplayName": job.name,
            "workflowRunId": job.run_id,
            "eventName": "push",
            "requestLabels": list(job.labels),
            "queueTime": _time(job.queued_at),
            "scaleSetAssignTime": _time(job.assigned_at),
            "runnerAssignTime": _time(job.started_at),
            "finishTime": _time(job.finished_at),
            "runnerId": job.runner_id,
            "runnerName": job.runner,
        }


def _time(at: float) -> str:
    if not at:
        return NEVER
    # Seven digits of the second's fraction, as .NET writes them.
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def _encoded(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
