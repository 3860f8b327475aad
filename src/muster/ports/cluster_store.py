"""Clusters in the store. The general contract of `ports.store` holds: guarded, fenced, with events, in one
transaction."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.cluster import Cluster, ClusterChange, ClusterState
from muster.domain.ids import ClusterId, OperationId
from muster.domain.operation import Fence, Operation, OperationChange
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes


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
        """Raises NotFound."""
        ...

    @reads
    async def named(self, name: str) -> Cluster | None:
        """The live cluster of that name, case aside; else the newest that had it."""
        ...

    @reads
    async def of_operation(self, operation_id: OperationId) -> Cluster:
        """The cluster that an operation works on. Raises NotFound."""
        ...

    @reads
    async def clusters(
        self, *, states: Sequence[ClusterState], after: Cursor | None, limit: int
    ) -> Page[Cluster]:
        """Clusters in any of the states, newest first."""
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
        """The guarded write of a cluster, and of its operation with it, if one is given.

        `token`: from where the provider's work can be followed, kept from now on and forgotten with the write
        after which there is nothing to follow (`Cluster.followed`): it is ready, has failed, or is undone. A
        secret: it is in no record, event or answer but `token`'s.
        """
        ...

    @reads
    async def token(self, cluster_id: ClusterId) -> str | None: ...

    @reads
    async def create_seconds(self, template: str, *, limit: int) -> Sequence[float]:
        """How long the last creates of a template took that came to be ready, newest first."""
        ...
