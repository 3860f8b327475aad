"""What the steps of a cluster need of Azure. Each verb is one call, or one look.

Calls raise Throttled (ask again later), Refused (asking again won't help) or Uncertain (the result is
unknown). A cluster on which another operation runs is Throttled, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.cluster import Place
from muster.domain.errors import ProviderError, Refused
from muster.domain.ids import InstallationId
from muster.domain.template import TemplateSpec
from muster.integrations.aks.sight import Group, Sight
from muster.ports.verbs import reads, writes


class GroupMissing(Refused):
    """Nothing was made: the group that it was to be made in isn't there, or isn't known everywhere yet."""


class NameInUse(ProviderError):
    """Nothing was made: something of that name is there. Look whose it is."""


class NotKnownYet(ProviderError):
    """Nothing was made: what the call refers to is so new that it isn't known everywhere. Ask again soon."""


class TrackLost(ProviderError):
    """Azure does not know the work of this token (any more). Read the resource instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A cluster to be made. Built from stored values alone, so that a repeat is identical."""

    place: Place
    template: TemplateSpec
    tags: Mapping[str, str]
    """Ours, beside those that the template names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    name: str
    """Ours to choose, and unique for ever."""
    scope: str
    role: str
    principal: str


class Azure(Protocol):
    @reads
    async def check(self, spec: TemplateSpec) -> None:
        """Check the credentials. Raises InvalidRequest."""
        ...

    @reads
    async def group(self, place: Place) -> Group | None:
        """Return the resource group; None if there is none, or none is visible yet."""
        ...

    @writes
    async def make_group(self, place: Place, *, region: str, tags: Mapping[str, str]) -> None:
        """Make a group that was not there a moment ago. May take a moment to be visible."""
        ...

    @reads
    async def holdings(self, place: Place) -> Sequence[str]:
        """Return the ids of what is in the group. The first few prove that the group isn't empty."""
        ...

    @writes
    async def delete_group(self, place: Place) -> None:
        """Ask for its end. Accepting is not being gone. Not there is no error."""
        ...

    @reads
    async def look(self, place: Place) -> Sight | None:
        """Return the cluster and its pools; None if there is none, or none is visible yet."""
        ...

    @reads
    async def list(
        self, account: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        """Return the clusters with the tag of this installation, and their tags. May be a little old."""
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
        """Return whether the work that a token stands for is done.

        Raises Refused, with Azure's reason, only if the work itself failed or was cancelled. Raises
        TrackLost if the token leads nowhere, and Throttled or Uncertain if the answer is unknown.
        """
        ...

    @writes
    async def abort(self, place: Place) -> None:
        """Ask Azure to stop what it does to the cluster. Nothing to stop is no error."""
        ...

    @writes
    async def delete(self, place: Place) -> None:
        """Ask for its end. Accepting is not being gone. Not there is no error."""
        ...

    @writes
    async def grant(self, grant: Grant) -> None:
        """Assign a role. A role that is assigned already, under any name, is no error.

        Raises NotKnownYet if the principal was made a moment ago and isn't known everywhere.
        """
        ...

    @writes
    async def revoke(self, name: str, scope: str) -> None:
        """Take back an assignment of ours. Not there is no error."""
        ...

    @reads
    async def close(self) -> None: ...
