"""Delete a ready cluster, with the same steps as the undo of a create."""

from muster.operations.cluster_undo import Undoing
from muster.operations.cluster_working import ClusterWorking
from muster.operations.driven_lease import DrivenLease, Next, still_driven


class ClusterDeletion:
    def __init__(self, working: ClusterWorking, undoing: Undoing) -> None:
        self._working = working
        self._undoing = undoing

    async def advance(self, driven: DrivenLease) -> Next | None:
        operation = await self._working.ports.store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return None
        return await self._undoing.advance(await self._working.begun(operation, driven))
