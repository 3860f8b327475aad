"""Tell on which node a job runs or ran: the audit line of each job, and whether its node was warm.

A source names the runner that has a job, and the runner's integration the assignment behind it. This duty
finds the node of the assignment. A node that ended meanwhile is found by the provision made for the job.
"""

from collections.abc import Sequence
from contextlib import suppress

from muster.domain.errors import Conflict
from muster.domain.ids import AssignmentId, operation_of
from muster.domain.jobs import Job, JobResult, JobState, interrupted, placed
from muster.domain.lifecycle import ENDING, PRESENT
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.ports.bundle import Ports
from muster.ports.paging import every_job, every_node

COMPLETED_MOST = 200
"""Newest jobs that are over. A job that ended earlier without a known node was looked for often enough."""
LATE = 900.0
"""Seconds after which a job that is over is left as it is."""
LOST = (Reason.INTERRUPTED, Reason.MACHINE_GONE, Reason.HEARTBEAT_LOST)
"""Why a node may be condemned under a job that did nothing wrong."""
FAILED = (JobResult.FAILED, JobResult.TIMED_OUT, JobResult.UNKNOWN, None)


def _open_question(job: Job, since: float) -> bool:
    """Return whether it is unknown on which node a job ran, or whether it lost it."""
    if job.assignment_id is None or job.updated_at < since:
        return False
    return job.node_id is None or (job.result in FAILED and not job.interrupted)


def is_interrupted(job: Job, node: Node) -> bool:
    """Return whether the job lost its machine. A job that had ended before, or ended well, did not."""
    if job.interrupted or node.reason not in LOST or node.state not in ENDING:
        return False
    if job.state is JobState.RUNNING:
        return True
    return job.result in FAILED and node.entered_at <= (job.completed_at or node.entered_at)


class JobPlacements:
    def __init__(self, ports: Ports) -> None:
        self._store = ports.store
        self._jobs = ports.jobs
        self._clock = ports.clock

    async def reconcile(self) -> None:
        running = [
            job
            async for job in every_job(self._jobs, states=(JobState.RUNNING,))
            if job.assignment_id is not None
        ]
        completed = (await self._jobs.jobs(states=(JobState.COMPLETED,), limit=COMPLETED_MOST)).items
        since = self._clock.now() - LATE
        wanting = [*running, *(job for job in completed if _open_question(job, since))]
        if not wanting:
            return
        nodes = await self._assigned(wanting)
        for job in wanting:
            node = nodes.get(job.assignment_id or AssignmentId("")) or await self._of_provision(job)
            if node is not None:
                await self._write(job, node)

    async def _assigned(self, jobs: Sequence[Job]) -> dict[AssignmentId, Node]:
        wanted = {job.assignment_id for job in jobs}
        found: dict[AssignmentId, Node] = {}
        async for node in every_node(self._store, states=PRESENT):
            if node.assignment_id is not None and node.assignment_id in wanted:
                found[node.assignment_id] = node
        return found

    async def _of_provision(self, job: Job) -> Node | None:
        if job.operation_id is None:
            return None
        held = await self._store.holdings(job.operation_id)
        return next((node for node in held.nodes if node.assignment_id == job.assignment_id), None)

    async def _write(self, job: Job, node: Node) -> None:
        now = self._clock.now()
        with suppress(Conflict):  # it moved on: the next look decides
            if job.node_id is None:
                warm = operation_of(node.launch_id) != node.operation_id
                job = await self._jobs.write(
                    placed(job, node_id=node.id, operation_id=node.operation_id, warm=warm, now=now)
                )
            if is_interrupted(job, node):
                await self._jobs.write(interrupted(job, now=now))
