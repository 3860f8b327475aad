"""Clusters in the store. The general contract of `ports.store` holds: guarded, fenced, with events, in one
transaction."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.cluster import Cluster, ClusterChange, ClusterState
from muster.domain.ids import ClusterId, OperationId
from muster.domain.operation import Fence, Operation, OperationChange
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes

FORGET = ""
"""Instead of a token: the one that is kept is deleted."""


class ClusterStore(Protocol):
    @writes
    async def submit(self, operation: Operation, change: ClusterChange) -> tuple[Operation, bool]:
        """Insert an operation and make or change the cluster that it works on, together. As with
        `Store.submit`, the same idempotency key gives the first operation and False, and writes nothing.
        Raises ClusterExists (a new cluster, and a live one has that name, case aside), Conflict (the cluster
        moved since it was read)."""
        ...

    @reads
    async def cluster(self, cluster_id: ClusterId) -> Cluster:
        """Return a cluster. Raises NotFound."""
        ...

    @reads
    async def named(self, name: str) -> Cluster | None:
        """Return the live cluster of that name, in any case of letters; else the newest that had the name."""
        ...

    @reads
    async def of_operation(self, operation_id: OperationId) -> Cluster:
        """Return the cluster that an operation works on. Raises NotFound."""
        ...

    @reads
    async def clusters(
        self, *, states: Sequence[ClusterState], after: Cursor | None, limit: int
    ) -> Page[Cluster]:
        """Return clusters in any of the states, newest first."""
        ...

    @writes
    async def write(
        self,
        change: ClusterChange,
        *,
        fence: Fence,
        operation: OperationChange | None = None,
        token: str | None = None,
    ) -> Cluster:
        """Write a cluster, and its operation if one is given, in one guarded write.

        `token` says where the provider's work can be followed. The store keeps it until the cluster is no
        longer `creating`, or until FORGET is written instead: the create is undone. The token is a secret:
        only the verb `token` returns it.
        """
        ...

    @reads
    async def token(self, cluster_id: ClusterId) -> str | None: ...

    @reads
    async def create_seconds(self, template: str, *, limit: int) -> Sequence[float]:
        """Return how long the last creates of a template took that ended ready, newest first."""
        ...
