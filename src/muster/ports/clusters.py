"""Make and delete clusters at a provider: slow, eventually consistent, and the only source of what exists.

The provider declares the steps, and does one thing of a step at a time. The core drives: it leases, keeps
time, writes, shows and ends. What is made carries the tags of `domain.cluster`; a delete checks them first.

Calls raise Throttled (ask again later), Refused (asking again won't help) or Uncertain (the result is
unknown).
"""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Protocol, TypeVar

from muster.domain.cluster import Cluster, ClusterPlan, ClusterSteps, Place
from muster.domain.cluster_decisions import Outcome, Situation
from muster.domain.errors import ProviderError, Refused
from muster.domain.ids import InstallationId
from muster.domain.progress import Part
from muster.domain.template import TemplateSpec
from muster.ports.verbs import reads, writes

T = TypeVar("T")


class LookRefused(ProviderError):
    """A look was refused, not the work: its state is unknown."""


class RemovalRefused(ProviderError):
    """The provider refuses to delete it: the one refusal that ends a removal."""

    def __init__(self, refusal: Refused, what: str) -> None:
        self.refusal = refusal
        super().__init__(f"it could not be removed: {refusal}; left: {what}")


class ClusterWork(Protocol):
    """What a step knows, and what it may do besides calls of its own. Nothing outlives a crash but what
    `remember` wrote: write what is going to be asked for, then ask."""

    @property
    def at(self) -> Situation:
        """What is decided on. Moves with each write."""
        ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def template(self) -> TemplateSpec: ...

    @property
    def failures(self) -> int:
        """Looks that failed in a row."""
        ...

    def now(self) -> float: ...

    async def call(self, call: Awaitable[T]) -> T:
        """Await a call of the provider. Raises what it raises; no answer in time is Uncertain."""
        ...

    async def hold(self) -> None:
        """Hold the lease for one more call: what makes or deletes must not outlive the right to write."""
        ...

    async def remember(self, *, token: str | None = None, **facts: object) -> None:
        """Write fields of the cluster's record, fenced. `token`: a secret, kept until the create ends."""
        ...

    async def token(self) -> str | None:
        """Return the token that was remembered last; None if there is none."""
        ...

    async def publish(self, message: str, parts: tuple[Part, ...] | None = None) -> None:
        """Show how far it is. `parts` None: those that were shown last."""
        ...

    def unknown_since(self) -> float:
        """Return when this was first asked for this cluster on this replica."""
        ...

    def neighbours(self) -> AsyncIterator[tuple[Cluster, ClusterPlan]]:
        """Give all other live clusters of the installation, in whatever state."""
        ...


class ClusterProvider(Protocol):
    name: str
    call_timeout: float
    poll_every: float
    """Seconds between two looks at a cluster that is being made or deleted."""
    steps: ClusterSteps

    @reads
    def plan(self, name: str, spec: TemplateSpec) -> ClusterPlan:
        """Plan a cluster from its name and template. Pure: no call."""
        ...

    @reads
    def unseen(self, cluster: Cluster, *, now: float) -> str:
        """Say, for people, that the state of its work can't be seen now. Pure."""
        ...

    @reads
    async def check(self, spec: TemplateSpec) -> None:
        """Check that the provider can be asked at all, without a call. Raises InvalidRequest if credentials
        or software are missing."""
        ...

    @writes
    async def make(self, work: ClusterWork) -> Outcome:
        """Do the next thing of the step at which a create stands.

        Looks before it asks, asks for a cluster only if there is none of that name, and never changes one
        that exists. A cluster that was asked for and isn't seen yet may come later. Raises LookRefused
        instead of Refused once something may be lost.
        """
        ...

    @writes
    async def remove(self, work: ClusterWork) -> Outcome:
        """Do the next thing of the step at which a removal stands. Touches only what has our tags.

        Raises RemovalRefused if the provider refuses to delete. Any other refusal is asked again.
        """
        ...

    @reads
    async def tags(self, place: Place) -> Mapping[str, str] | None:
        """Return the tags of the cluster; None if there is none, or none is visible yet."""
        ...

    @reads
    async def list(
        self, account: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        """Return the clusters with the tag of this installation, and their tags. May be a little old."""
        ...

    @reads
    async def close(self) -> None: ...
