"""Deleting a cluster that is there: the same undoing, as an operation of its own."""

from muster.operations.cluster_undo import Undoing
from muster.operations.cluster_working import ClusterWorking
from muster.operations.tenure import Next, Tenure, goes_on


class ClusterDeletion:
    def __init__(self, working: ClusterWorking, undoing: Undoing) -> None:
        self._working = working
        self._undoing = undoing

    async def advance(self, tenure: Tenure) -> Next | None:
        operation = await self._working.ports.store.operation(tenure.operation_id)
        if not goes_on(operation, tenure):
            return None
        return await self._undoing.advance(await self._working.begun(operation, tenure))
