"""Remove a cluster through the steps that its provider declares.

Serves deletes, and the undo of a failed or cancelled create. Repeats until nothing is left or the provider
refuses a delete.
"""

from dataclasses import replace

from muster.domain import cluster_decisions as decisions
from muster.domain import cluster_progress as showing
from muster.domain.cluster import ClusterState as State
from muster.domain.cluster import changed
from muster.domain.cluster_decisions import Done, Fail, Outcome, Wait
from muster.domain.errors import ProviderError, Refused, Throttled
from muster.domain.operation import Kind, Status, Verdict
from muster.domain.reasons import Reason
from muster.operations.cluster_work import ClusterWorks, Work
from muster.operations.driven_lease import DrivenLease, Next
from muster.ports.clusters import RemovalRefused


class ClusterRemoval:
    def __init__(self, works: ClusterWorks) -> None:
        self._works = works

    async def advance(self, driven: DrivenLease) -> Next | None:
        work = await self._works.begun(driven)
        return None if work is None else await self.go_on(work)

    async def go_on(self, work: Work) -> Next | None:
        if work.at.now < work.driven.retry_at:
            return Next(at=work.driven.retry_at)
        if self._given_up(work):
            late = decisions.too_late(work.at).verdict
            return await self._left(work, late.reason, late.message)
        if work.at.steps.ends(work.cluster.stage):
            return await self._gone(work, Done())
        try:
            return await self._follow(work, await work.provider.remove(work))
        except Throttled as wait:
            await work.publish(str(wait))
            return work.later(wait.retry_after)
        except RemovalRefused as error:
            return await self._left(work, error.refusal.reason, str(error))
        except ProviderError as error:
            # Also a look that is refused: it may be a moment's, and what is left costs money.
            state = work.provider.unseen(work.cluster, now=work.at.now)
            await work.publish(f"{state} · {error}" if isinstance(error, Refused) else state)
            return work.back_off(error)

    def _given_up(self, work: Work) -> bool:
        """A deletion has a deadline; an undo goes on, because its remains were never asked for."""
        return work.at.operation.kind is Kind.CLUSTER_DELETE and work.at.overdue

    async def _follow(self, work: Work, outcome: Outcome) -> Next | None:
        match outcome:
            case Done():
                stage = work.at.steps.after(work.cluster.stage).stage
                ends = work.at.steps.ends(stage)
                return await (self._gone(work, outcome) if ends else work.enter(stage, outcome))
            case Wait():
                return await work.wait(outcome)
            case Fail(verdict=verdict):
                return await self._left(work, verdict.reason, verdict.message)

    # --- ends -------------------------------------------------------------------------------------

    async def _gone(self, work: Work, done: Done) -> Next | None:
        operation, now = work.at.operation, work.now()
        facts = {"roles_left": "", **done.facts}
        stage = work.at.steps.delete[-1].stage
        change = changed(work.cluster, now=now, stage=stage, state=State.DELETED, **facts)
        note = _together(done.note, change.after.roles_left)
        if operation.kind is Kind.CLUSTER_DELETE:
            ahead = replace(work.at, cluster=change.after, now=now)
            shown = showing.shown(ahead, message=note or "nothing is left", parts=())
            return await work.end(Status.SUCCEEDED, change, progress=shown, result=note)
        verdict = operation.verdict
        told = f"what it made is removed; {note}" if note else "all that was made is removed"
        status = Status.CANCELLED if verdict is None else Status.FAILED
        if verdict is None:
            verdict = Verdict(reason=Reason.CANCELLED, message=f"the create was cancelled; {told}")
        progress = showing.as_failed(work.at, told)
        return await work.end(status, change, progress=progress, verdict=verdict, result=note)

    async def _left(self, work: Work, reason: Reason, message: str) -> Next | None:
        """The provider refuses, or time is up: what there is stays, is listed, and can be deleted again."""
        message = _together(message, work.cluster.roles_left)
        change = changed(work.cluster, now=work.now(), state=State.FAILED, reason=reason, detail=message)
        first = work.at.operation.verdict
        told = f"{first.message}; {message}" if first is not None else message
        verdict = Verdict(reason=first.reason if first is not None else reason, message=told)
        progress = showing.as_failed(work.at, message)
        return await work.end(Status.FAILED, change, progress=progress, verdict=verdict)


def _together(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
