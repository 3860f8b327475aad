"""Where clusters come from. Slow, eventually consistent, and the only one who knows what really exists.

What is made carries the tags of its order; a delete checks them first. Every call ends within
`call_timeout` or counts as Uncertain. Calls raise Throttled (not now: later, as told; also while another
operation runs on the same cluster), Refused (asking again won't help) or Uncertain (the result is unknown).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.cluster import Place
from muster.domain.cluster_sight import Group, Sight
from muster.domain.cluster_spec import AzureRole, ClusterSpec
from muster.domain.ids import InstallationId
from muster.ports.verbs import reads, writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A cluster to be made. Built from stored values alone, so that a repeat is identical."""

    place: Place
    spec: ClusterSpec
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    name: str
    """Ours to choose, and unique for ever."""
    scope: str
    role: AzureRole
    principal: str


class ClusterProvider(Protocol):
    name: str
    call_timeout: float
    poll_every: float
    """Seconds between two looks at a cluster that is being made or deleted."""

    @reads
    async def check(self, spec: ClusterSpec) -> None:
        """Whether it could be asked at all. Raises InvalidRequest: no credentials, or software is missing.
        Touches nothing at the provider's."""
        ...

    @reads
    async def group(self, place: Place) -> Group | None:
        """The resource group; None if there is none (or it isn't visible yet)."""
        ...

    @writes
    async def make_group(self, place: Place, *, region: str, tags: Mapping[str, str]) -> None:
        """Make a group that was not there a moment ago. May take a moment to be visible."""
        ...

    @reads
    async def holdings(self, place: Place) -> Sequence[str]:
        """The ids of what is in the group: the first few prove that it isn't empty."""
        ...

    @writes
    async def delete_group(self, place: Place) -> None:
        """Ask for its end. Accepting is not being gone. Not there is no error."""
        ...

    @reads
    async def look(self, place: Place) -> Sight | None:
        """The cluster and its pools; None if there is none (or it isn't visible yet)."""
        ...

    @reads
    async def list(
        self, subscription: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        """Clusters that carry the tag of this installation, with their tags. May be a little old."""
        ...

    @writes
    async def create(self, order: Order) -> str:
        """Ask for a cluster, only if there is none of that name: never changes one that exists.

        Gives a token from which `follow` takes the work up, in any process; it is a secret.
        Raises NameInUse: something of that name is there, perhaps by this very request, repeated on its way;
        look whose it is. GroupMissing: the group isn't there, or isn't known everywhere yet.
        """
        ...

    @reads
    async def follow(self, place: Place, token: str) -> bool:
        """How the work that a token stands for goes: True: done, False: still going on.

        Raises Refused, with the provider's reason, only if the work itself failed or was cancelled; TrackLost
        if the token leads nowhere; Throttled or Uncertain if nothing was learned.
        """
        ...

    @writes
    async def abort(self, place: Place) -> None:
        """Ask the provider to stop what it does to the cluster. Nothing to stop is no error."""
        ...

    @writes
    async def delete(self, place: Place) -> None:
        """Ask for its end. Accepting is not being gone. Not there is no error."""
        ...

    @writes
    async def grant(self, grant: Grant) -> None:
        """Assign a role; that it is assigned already, under whatever name, is no error. Raises NotKnownYet
        if the principal was made a moment ago and isn't known everywhere."""
        ...

    @writes
    async def revoke(self, name: str, scope: str) -> None:
        """Take back an assignment of ours. Not there is no error."""
        ...

    @reads
    async def close(self) -> None: ...
