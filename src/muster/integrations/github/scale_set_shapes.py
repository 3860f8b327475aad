"""What the Actions service sends and is sent about runner scale sets, by the names that it uses.

GitHub publishes no document of these shapes. Unknown fields are ignored, and every field has a default where
an answer without it can still be used.
"""

from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

JOB_MESSAGES = "RunnerScaleSetJobMessages"
AVAILABLE, ASSIGNED, STARTED, COMPLETED = "JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"
_ONLINE = {"online": True, "2": True, "offline": False, "1": False}
_BEGINNING = 2000
"""The first year of a time that happened. GitHub writes the year 1 for what did not happen yet."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A shape in the service's own spelling."""


class Label(_Shape, frozen=True):
    name: str
    type: str = "System"


class Statistics(_Shape, frozen=True):
    """Counts of a whole set. The only word on how many jobs wait."""

    total_available_jobs: int = 0
    total_assigned_jobs: int = 0
    """Jobs that wait for a runner of the set, and those that run."""
    total_running_jobs: int = 0
    total_registered_runners: int = 0
    total_busy_runners: int = 0
    total_idle_runners: int = 0


class ScaleSet(_Shape, frozen=True):
    id: int
    name: str
    runner_group_id: int = 1
    runner_group_name: str = ""
    labels: tuple[Label, ...] = ()
    statistics: Statistics | None = None

    @property
    def label_names(self) -> frozenset[str]:
        """Return the labels in lower case: GitHub does not tell them apart by case."""
        return frozenset(each.name.lower() for each in self.labels)


class RunnerGroup(_Shape, frozen=True):
    id: int
    name: str


class Session(_Shape, frozen=True):
    session_id: str
    message_queue_url: str = ""
    message_queue_access_token: str = ""
    statistics: Statistics | None = None

    def __repr__(self) -> str:
        return f"Session({self.session_id})"


class SetRunner(_Shape, frozen=True):
    id: int
    name: str
    runner_scale_set_id: int | None = None
    status: str | int | None = None

    @property
    def online(self) -> bool | None:
        """Return whether it is connected; None: the service does not say."""
        return _ONLINE.get(str(self.status).lower())


class JitConfig(_Shape, frozen=True):
    runner: SetRunner
    encoded: str = msgspec.field(name="encodedJITConfig")

    def __repr__(self) -> str:
        return f"JitConfig({self.runner.name})"


class AcquirableJob(_Shape, frozen=True):
    runner_request_id: int = 0


class JobEntry(_Shape, frozen=True):
    """One event of one job. Times are texts here: what did not happen is empty, absent or of the year 1."""

    message_type: str
    runner_request_id: int = 0
    """0 where GitHub assigns jobs by itself."""
    owner_name: str = ""
    repository_name: str = ""
    job_id: str = ""
    """Not the id that the REST API has for the job."""
    job_display_name: str = ""
    job_workflow_ref: str = ""
    workflow_run_id: int = 0
    event_name: str = ""
    request_labels: tuple[str, ...] = ()
    queue_time: str = ""
    scale_set_assign_time: str = ""
    runner_assign_time: str = ""
    finish_time: str = ""
    runner_id: int | None = None
    runner_name: str | None = None
    result: str | None = None


class Message(_Shape, frozen=True):
    message_id: int
    message_type: str = ""
    body: str = ""
    """JSON in a text: a list of job entries, at most 50."""
    statistics: Statistics | None = None

    def entries(self) -> tuple[JobEntry, ...]:
        """Return the job entries. Entries that can't be read are left out. Raises ValueError for a body
        that is no list."""
        if self.message_type != JOB_MESSAGES or not self.body:
            return ()
        return tuple(filter(None, map(_entry, msgspec.json.decode(self.body, type=list[msgspec.Raw]))))


def _entry(raw: msgspec.Raw) -> JobEntry | None:
    try:
        return msgspec.json.decode(raw, type=JobEntry)
    except msgspec.DecodeError:
        return None


class Listed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    value: list[T] = []
    count: int = 0


class Problem(_Shape, frozen=True):
    type_name: str = ""
    message: str = ""


def time_of(text: str) -> float | None:
    """Return a time as seconds, or None if it did not happen or can't be read."""
    whole, _, fraction = text.rstrip("Zz").partition(".")
    try:
        at = datetime.fromisoformat(whole)
    except ValueError:
        return None
    if at.year < _BEGINNING or not (fraction or "0").isdigit():
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at.timestamp() + float(f"0.{fraction or 0}")


def decoded(content: bytes, shape: Any) -> Any:
    """Return a body as a shape. A byte order mark is skipped. Raises ValueError."""
    return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=shape)
