"""Create and remove clusters through the steps that their provider declares."""

from dataclasses import replace

from muster.domain import cluster_decisions as decisions
from muster.domain import operation as operations
from muster.domain.cluster import ClusterState as State
from muster.domain.cluster import changed
from muster.domain.cluster_decisions import Done, Fail, Outcome, Wait
from muster.domain.errors import ProviderError, Refused, Throttled
from muster.domain.operation import Kind, Status, Verdict
from muster.domain.reasons import Reason
from muster.operations.cluster_work import ClusterWorks, Work
from muster.operations.driven_lease import DrivenLease, Next
from muster.ports.clusters import LookRefused, RemovalRefused


class ClusterRemoval:
    """Remove a cluster.

    Serves deletes, and the undo of a failed or cancelled create. Repeats until nothing is left or the
    provider refuses a delete.
    """

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
            shown = decisions.shown(ahead, message=note or "nothing is left", parts=())
            return await work.end(Status.SUCCEEDED, change, progress=shown, result=note)
        verdict = operation.verdict
        told = f"what it made is removed; {note}" if note else "all that was made is removed"
        status = Status.CANCELLED if verdict is None else Status.FAILED
        if verdict is None:
            verdict = Verdict(reason=Reason.CANCELLED, message=f"the create was cancelled; {told}")
        progress = decisions.as_failed(work.at, told)
        return await work.end(status, change, progress=progress, verdict=verdict, result=note)

    async def _left(self, work: Work, reason: Reason, message: str) -> Next | None:
        """The provider refuses, or time is up: what there is stays, is listed, and can be deleted again."""
        message = _together(message, work.cluster.roles_left)
        change = changed(work.cluster, now=work.now(), state=State.FAILED, reason=reason, detail=message)
        first = work.at.operation.verdict
        told = f"{first.message}; {message}" if first is not None else message
        verdict = Verdict(reason=first.reason if first is not None else reason, message=told)
        progress = decisions.as_failed(work.at, message)
        return await work.end(Status.FAILED, change, progress=progress, verdict=verdict)


def _together(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


class ClusterCreation:
    """Create a cluster. Undo it if it fails.

    Owns when a create fails, waits and ends. Each request is stored before it is sent, so that a replica that
    takes over knows what may exist.
    """

    def __init__(self, works: ClusterWorks, removal: ClusterRemoval) -> None:
        self._works = works
        self._removal = removal

    async def advance(self, driven: DrivenLease) -> Next | None:
        work = await self._works.begun(driven)
        if work is None:
            return None
        if work.at.steps.undo(work.cluster.stage):
            return await self._removal.go_on(work)
        if decisions.stopped(work.at.operation):
            return await work.enter(work.at.steps.delete[0].stage)
        if work.at.now < driven.retry_at:
            return Next(at=driven.retry_at)
        try:
            return await self._follow(work, await work.provider.make(work))
        except Throttled as wait:
            return await self._held_up(work, wait)
        except LookRefused as error:
            return await self._unseen(work, error, decisions.overdue(work.at), f" · {error}")
        except Refused as error:
            return await self._fail(work, decisions.refused(work.at, error))
        except ProviderError as error:
            return await self._unseen(work, error, decisions.unseen(work.at))

    async def _held_up(self, work: Work, wait: Throttled) -> Next | None:
        """Later, as told. What the provider has accepted isn't given up because we may not look at it."""
        accepted = await work.token() is not None
        late = decisions.unseen(work.at) if accepted else decisions.overdue(work.at)
        if late is not None:
            return await self._fail(work, late)
        await work.publish(str(wait))
        return work.later(wait.retry_after)

    async def _unseen(
        self, work: Work, error: ProviderError, late: Fail | None, told: str = ""
    ) -> Next | None:
        """Show a failed look as unknown: that says nothing about what is made."""
        if late is not None:
            return await self._fail(work, late)
        shown = work.at.operation.progress
        parts = decisions.unknown(shown.parts) if shown is not None else None
        state = work.provider.unseen(work.cluster, now=work.at.now)
        await work.publish(f"{state}{told}", parts)
        return work.back_off(error)

    async def _follow(self, work: Work, outcome: Outcome) -> Next | None:
        match outcome:
            case Done():
                stage = work.at.steps.after(work.cluster.stage).stage
                return await (self._ready(work) if work.at.steps.ends(stage) else work.enter(stage, outcome))
            case Wait():
                return await work.wait(outcome)
            case Fail():
                return await self._fail(work, outcome)

    # --- ends -------------------------------------------------------------------------------------

    async def _ready(self, work: Work) -> Next | None:
        now = work.now()
        if decisions.stopped(work.at.operation):
            return Next(at=now)  # a cancel came first: it is undone
        stage = work.at.steps.create[-1].stage
        change = changed(work.cluster, now=now, stage=stage, state=State.READY, ready_at=now)
        progress = decisions.shown(replace(work.at, cluster=change.after, now=now), message=work.cluster.fqdn)
        return await work.end(Status.SUCCEEDED, change, progress=progress, result=work.cluster.fqdn)

    async def _fail(self, work: Work, failure: Fail) -> Next | None:
        """The step is named, the verdict is written, and what was made is undone, unless it is to be kept."""
        operation = work.at.operation
        now = work.now()
        if decisions.stopped(operation):
            return Next(at=now)
        cause = failure.verdict
        step = decisions.step_name(work.at.steps, work.cluster.stage)
        told = Verdict(reason=cause.reason, message=f"{step}: {cause.message}")
        facts = {"reason": told.reason, "detail": told.message}
        if work.at.plan.keep_failed:
            change = changed(work.cluster, now=now, state=State.FAILED, **facts)
            progress = decisions.as_failed(work.at, cause.message)
            return await work.end(Status.FAILED, change, progress=progress, verdict=told)
        change = changed(work.cluster, now=now, stage=work.at.steps.delete[0].stage, **facts)
        await work.write(change, operations.failing(operation, told, now=now))
        work.driven.retry_at = 0.0
        return Next(at=now)
