"""Where Actions runners are registered and workflow runs are looked up. Slow, rate limited, eventually right.

Every method raises Throttled (nothing happened; later), Refused (credentials, rights, names: asking again
won't help) or Uncertain (unknown; everything here may be repeated).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.integrations.github.runner import Job, Scope, WorkflowRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    id: int
    name: str
    online: bool
    busy: bool
    labels: tuple[str, ...]
    """In lower case: GitHub doesn't tell them apart by case."""


class RunnerRegistry(Protocol):
    async def check(self, scope: Scope, *, group: str) -> None:
        """Whether runners could be registered there now."""
        ...

    async def just_in_time(self, scope: Scope, *, name: str, labels: Sequence[str], group: str) -> str:
        """Register an ephemeral runner; gives its configuration, a secret. A runner of that name which is
        there already is replaced: what was given for it is worthless from then on."""
        ...

    async def registration_token(self, scope: Scope) -> str:
        """A short-lived secret with which a runner registers itself."""
        ...

    async def runners(self, scope: Scope) -> Sequence[Runner]:
        """All of them, as they are at some moment after the call."""
        ...

    async def find(self, scope: Scope, name: str) -> Runner | None: ...

    async def remove(self, scope: Scope, runner_id: int) -> bool:
        """False: it is busy and can't be removed now. One that isn't there is as good as removed."""
        ...


class Workflows(Protocol):
    async def run(self, repository: str, run_id: int) -> WorkflowRun | None:
        """Its latest attempt; None: there is no such run (any more), or it can't be seen."""
        ...

    async def can_see(self, repository: str) -> bool:
        """Whether runs of the repository can be looked up at all."""
        ...

    async def active(self, repository: str) -> Sequence[WorkflowRun]:
        """Runs that wait or are under way, at most a thousand of each, newest first."""
        ...

    async def jobs(self, repository: str, run_id: int) -> Sequence[Job]:
        """The jobs of its latest attempt."""
        ...
