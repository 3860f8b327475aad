"""Decide what a queued job needs: a provision, another one, or only the word why it waits. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from muster.domain.backoff import backoff
from muster.domain.ids import AssignmentId
from muster.domain.jobs import Job, Unserved
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.reasons import Reason
from muster.domain.wait_reasons import WaitsFor, waits_for

EXPECTED = 20.0
"""Seconds that a job may wait without a word why."""
GIVEN_WITHIN = 90.0
"""Seconds after which an idle runner should have got its job. GitHub takes a few."""
PAUSE, PAUSE_MOST = 30.0, 900.0
"""Seconds between two provisions for one job that failed; twice as long after each."""
_CAUSES = {
    Reason.CAP_REACHED: Unserved.CAP,
    Reason.ABOVE_CAP: Unserved.CAP,
    Reason.CAPACITY: Unserved.CAPACITY,
    Reason.QUOTA: Unserved.CAPACITY,
    Reason.SKU_UNAVAILABLE: Unserved.CAPACITY,
    Reason.PARTIAL_LAUNCH: Unserved.CAPACITY,
    Reason.ATTACH_FAILED: Unserved.REGISTRATION,
    Reason.PROVIDER_REFUSED: Unserved.REGISTRATION,
    Reason.PERMISSION: Unserved.REGISTRATION,
    Reason.THROTTLED: Unserved.THROTTLED,
}


@dataclass(frozen=True, slots=True)
class Serve:
    """Provision a runner."""

    doubtful: bool = False
    """It had a runner, which is gone. It may have run there while the news of that were lost."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Another job has its runner. It needs another one, unless a spare one with its labels is on its way."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Say why it waits; None: nothing holds it back."""

    cause: Unserved | None = None
    detail: str = ""


def decide(
    job: Job,
    operation: Operation | None,
    node: Node | None,
    *,
    busy: Collection[AssignmentId | None],
    paused: Collection[str | None],
    now: float,
) -> Serve | Taken | Hold:
    """Decide about a queued job. `operation`: its last provision. `node`: what that handed over. `busy`:
    assignments whose runners have a job.

    A node that no longer runs gave its runner to another job, or was lost: the job needs another one.
    """
    if operation is None:
        return Serve()
    if not operation.ended:
        return _under_way(job, operation, paused, now)
    if operation.status is Status.SUCCEEDED:
        if node is None or node.state is not NodeState.RUNNING:
            return Serve(doubtful=True)
        if node.assignment_id in busy:
            return Taken()
        idle_since = operation.committed_at or operation.updated_at
        if now - idle_since <= GIVEN_WITHIN:
            return Hold()
        return Hold(Unserved.GROUP, f"the runner of {node.id} has no job")
    pause = backoff(max(0, job.tries - 1), first=PAUSE, most=PAUSE_MOST)
    if now >= operation.updated_at + pause:
        return Serve()
    verdict = operation.verdict
    cause = Unserved.FAILED if verdict is None else _CAUSES.get(verdict.reason, Unserved.FAILED)
    return Hold(cause, f"{operation.id}: {verdict.message if verdict is not None else operation.status}")


def _under_way(job: Job, operation: Operation, paused: Collection[str | None], now: float) -> Hold:
    if now - job.waits_since <= EXPECTED:
        return Hold()
    reason = waits_for(operation, paused=paused, now=now)
    if reason is WaitsFor.PAUSED:
        return Hold(Unserved.PAUSED, f"template {operation.template}")
    if reason is WaitsFor.ROOM:
        return Hold(Unserved.CAP, f"{operation.id} waits for room under max_nodes of {operation.template}")
    return Hold()
