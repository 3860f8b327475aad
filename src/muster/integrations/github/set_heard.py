"""What one session of a scale set told us so far. A new session starts with nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from muster.integrations.github.scale_set_shapes import COMPLETED, STARTED, JobEntry, Message, Statistics
from muster.integrations.github.set_scaling import Demand, SetRunnerState


@dataclass(slots=True)
class Heard:
    statistics: Statistics = field(default_factory=Statistics)
    waiting_since: float | None = None
    """Since when GitHub counts waiting jobs without a break."""
    inbox: list[Message] = field(default_factory=list)
    """Messages whose work is not durable yet."""
    read: set[int] = field(default_factory=set)
    """Ids of messages in the inbox that only wait for room: what they say of the set may be old by now."""
    busy: set[str] = field(default_factory=set)
    """Names of runners that have a job. Of a runner that is not in it, nothing is known."""
    spent: set[str] = field(default_factory=set)
    """Names of runners whose job ended."""
    passed_over: int = 0
    """Idle runners that were removed while GitHub counted waiting jobs. A job that starts clears it."""
    tried: set[int] = field(default_factory=set)
    """Ids of offers (GHES) that we tried to acquire."""
    looked_at: float = 0.0
    """When offered jobs were last listed."""
    capacity: int = 0
    """As the next poll tells it."""
    problem: str = ""
    """Why polls fail."""

    def count(self, said: Statistics, *, now: float) -> None:
        self.statistics = said
        if said.total_assigned_jobs <= said.total_running_jobs:
            self.waiting_since, self.passed_over = None, 0
        elif self.waiting_since is None:
            self.waiting_since = now

    def count_assigned(self, assigned: int, *, now: float) -> None:
        """Correct the number of assigned jobs, and nothing else."""
        self.count(msgspec.structs.replace(self.statistics, total_assigned_jobs=assigned), now=now)

    @property
    def waiting(self) -> int:
        return max(0, self.statistics.total_assigned_jobs - self.statistics.total_running_jobs)

    @property
    def demand(self) -> Demand:
        """Return what GitHub counts. While it gives runners none of the jobs, one runner keeps trying."""
        said = self.statistics
        tried = said.total_running_jobs + 1 if self.passed_over else said.total_assigned_jobs
        return Demand(
            assigned=min(said.total_assigned_jobs, tried),
            running=said.total_running_jobs,
            waiting_since=self.waiting_since,
        )

    def follow(self, entries: Sequence[JobEntry]) -> None:
        """Note which runners have a job and which had theirs."""
        for entry in entries:
            name = entry.runner_name or ""
            if entry.message_type == STARTED:
                self.passed_over = 0
                self.busy.add(name)
            elif entry.message_type == COMPLETED and name:
                self.busy.discard(name)
                self.spent.add(name)

    def know(self, runners: Sequence[SetRunnerState]) -> tuple[SetRunnerState, ...]:
        """Return the runners with what is known of them. Forget those that are gone."""
        present = {each.name for each in runners}
        self.busy &= present
        self.spent &= present
        return tuple(
            replace(each, busy=each.name in self.busy, spent=each.name in self.spent) for each in runners
        )


def entries_of(message: Message) -> Sequence[JobEntry]:
    """Return the job entries of a message; none if its body can't be read."""
    try:
        return message.entries()
    except ValueError:
        return ()
