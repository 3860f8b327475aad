"""Remove a cluster: stop the work, remove roles, delete the cluster, then its resource group.

Serves deletes, and the undo of a failed or cancelled create. Touches only resources with this
installation's tags. Repeats until nothing is left or the provider refuses a delete.
"""

from collections.abc import Awaitable
from dataclasses import replace

from muster.domain import cluster_showing as showing
from muster.domain import clustering
from muster.domain.cluster import LIVE_CLUSTERS, Cluster, Stage, assignment_name, changed
from muster.domain.cluster import ClusterState as State
from muster.domain.cluster_sight import Sight
from muster.domain.clustering import Act, Decision, Go, Wait
from muster.domain.errors import ProviderError, Refused, Throttled
from muster.domain.operation import Kind, Status, Verdict
from muster.domain.reasons import Reason
from muster.operations.cluster_working import ClusterWorking, Work
from muster.operations.driven_lease import Next
from muster.ports.paging import items

PAGE = 200


class RemovalRefused(ProviderError):
    """The provider refuses to delete it: the one refusal that ends an undoing."""

    def __init__(self, refusal: Refused, what: str) -> None:
        self.refusal = refusal
        super().__init__(f"it could not be removed: {refusal}; left: {what}")


class Undoing:
    def __init__(self, working: ClusterWorking) -> None:
        self._working = working

    async def advance(self, work: Work) -> Next | None:
        if work.at.now < work.driven.retry_at:
            return Next(at=work.driven.retry_at)
        if self._given_up(work):
            late = clustering.too_late(work.at).verdict
            await self._left(work, late.reason, late.message)
            return None
        try:
            return await self._undone(work)
        except Throttled as wait:
            await self._working.publish(work, str(wait))
            return self._working.later(work, wait.retry_after)
        except RemovalRefused as error:
            await self._left(work, error.refusal.reason, str(error))
            return None
        except ProviderError as error:
            # Also a look that is refused: it may be a moment's, and what is left costs money.
            state = showing.state_words(work.at, None, seen=False)
            await self._working.publish(work, f"{state} · {error}" if isinstance(error, Refused) else state)
            return self._working.back_off(work, error)

    def _given_up(self, work: Work) -> bool:
        """A deletion has a deadline; an undo goes on, because its remains were never asked for."""
        return work.at.operation.kind is Kind.CLUSTER_DELETE and work.at.overdue

    async def _undone(self, work: Work) -> Next | None:
        match work.cluster.stage:
            case Stage.ABORTING:
                return await self._stop(work)
            case Stage.REVOKING:
                return await self._revoke(work)
            case Stage.DELETING:
                return await self._remove(work)
            case Stage.CLEARING:
                return await self._clear(work)
            case _:
                await self._gone(work, "")
                return None

    async def _stop(self, work: Work) -> Next | None:
        if work.cluster.asked_at is None:
            return await self._working.enter(work, Stage.REVOKING)
        sight = await self._looked(work)
        decision = clustering.stop(work.at, sight)
        if isinstance(decision, Act):
            await self._working.hold(work)
            return await self._aborted(work)
        return await self._follow(work, decision, sight)

    async def _aborted(self, work: Work) -> Next:
        """What the provider doesn't stop, it finishes: then it can be deleted."""
        note = ""
        try:
            await self._working.call(work, work.provider.abort(work.at.place))
        except Refused as error:
            note = f"{error}; it is deleted when the provider has finished it"
        return await self._working.enter(work, Stage.REVOKING, note=note)

    async def _revoke(self, work: Work) -> Next | None:
        """By names that are derived: also what was granted just before a crash is found."""
        if not work.cluster.principal and not work.cluster.kubelet:
            return await self._working.enter(work, Stage.DELETING)  # it never came to granting
        await self._working.hold(work)
        left = await self._taken_back(work)
        return await self._working.enter(work, Stage.DELETING, note=left, roles_left=left)

    async def _taken_back(self, work: Work) -> str:
        """Which assignments the provider keeps; the rest is gone."""
        kept: list[str] = []
        for role in work.at.plan.roles:
            name = assignment_name(work.cluster, role)
            try:
                await self._working.call(work, work.provider.revoke(name, role.scope))
            except Refused as error:
                kept.append(f"role assignment {name} ({role.role}) on {role.scope} is left: {error}")
        return "; ".join(kept)

    async def _remove(self, work: Work) -> Next | None:
        if work.cluster.asked_at is None:
            return await self._working.enter(work, Stage.CLEARING)
        sight = await self._looked(work)
        decision = clustering.remove(work.at, sight)
        if isinstance(decision, Act):
            await self._working.hold(work)
            await self._deleted(work, work.provider.delete(work.at.place), work.at.place.cluster_id)
        return await self._follow(work, decision, sight)

    async def _clear(self, work: Work) -> Next | None:
        if work.cluster.asked_at is None and work.cluster.group_asked_at is None:
            await self._gone(work, "")  # nothing was made; perhaps we may not even look
            return None
        place = work.at.place
        group = await self._working.call(work, work.provider.group(place))
        holdings = await self._working.call(work, work.provider.holdings(place)) if group is not None else ()
        decision = clustering.clear(work.at, group, holdings, await self._neighbours(work))
        if isinstance(decision, Go):
            await self._cleared(work, decision.note)
            return None
        if isinstance(decision, Act):
            await self._working.hold(work)
            await self._deleted(work, work.provider.delete_group(place), place.group_id)
            decision = Wait(message=f"removing resource group {place.group}")
        if decision == clustering.EMPTYING:
            return await self._emptied(work)
        return await self._follow(work, decision, None)

    async def _emptied(self, work: Work) -> Next | None:
        """The cluster is listed, although it wasn't seen when it was to be deleted: it is deleted here."""
        sight = await self._looked(work)
        decision = clustering.remove(work.at, sight) if sight is not None else clustering.EMPTYING
        if isinstance(decision, Go):
            await self._cleared(work, decision.note)
            return None
        if isinstance(decision, Act):
            await self._working.hold(work)
            await self._deleted(work, work.provider.delete(work.at.place), work.at.place.cluster_id)
        return await self._follow(work, clustering.EMPTYING, sight)

    async def _cleared(self, work: Work, kept: str) -> None:
        # What was refused then may be granted by now.
        left = await self._taken_back(work) if work.cluster.roles_left else ""
        await self._gone(work, kept, roles_left=left)

    async def _deleted(self, work: Work, call: Awaitable[None], what: str) -> None:
        try:
            await self._working.call(work, call)
        except Refused as error:
            raise RemovalRefused(error, what) from error

    async def _neighbours(self, work: Work) -> list[str]:
        """Our other clusters in the same group, also those that aren't visible in it yet."""
        store = self._working.store
        found = items(lambda after: store.clusters(states=LIVE_CLUSTERS, after=after, limit=PAGE))
        return [
            each.name
            async for each in found
            if each.id != work.cluster.id and await self._shares_group(work, each)
        ]

    async def _shares_group(self, work: Work, other: Cluster) -> bool:
        template = await self._working.ports.store.template(other.template, other.revision)
        plan = self._working.ports.cluster_providers[other.provider].plan(other.name, template.spec)
        return plan.place.group_id.lower() == work.at.place.group_id.lower()

    async def _looked(self, work: Work) -> Sight | None:
        sight = await self._working.call(work, work.provider.look(work.at.place))
        if sight is not None and not work.cluster.answered:
            # What was seen and is gone later doesn't come any more.
            now = self._working.ports.clock.now()
            await self._working.write(work, changed(work.cluster, now=now, answered=True))
        return sight

    async def _follow(self, work: Work, decision: Decision, sight: Sight | None) -> Next | None:
        if isinstance(decision, Go):
            return await self._working.enter(work, decision.stage, note=decision.note)
        said = decision.message if isinstance(decision, Wait) else ""
        message = said or showing.state_words(work.at, sight)
        pools = showing.chips(sight.pools) if sight is not None and sight.pools else None
        await self._working.publish(work, message, pools)
        work.driven.failures = 0
        return self._working.later(work, work.provider.poll_every)

    # --- ends -------------------------------------------------------------------------------------

    async def _gone(self, work: Work, kept: str, *, roles_left: str = "") -> None:
        operation = work.at.operation
        note = _together(kept, roles_left)
        now = self._working.ports.clock.now()
        change = changed(work.cluster, now=now, stage=Stage.GONE, state=State.DELETED, roles_left=roles_left)
        if operation.kind is Kind.CLUSTER_DELETE:
            ahead = replace(work.at, cluster=change.after, now=now)
            done = showing.shown(ahead, message=note or "nothing is left", parts=())
            await self._working.end(work, Status.SUCCEEDED, change, progress=done, result=note)
            return
        verdict = operation.verdict
        told = f"what it made is removed; {note}" if note else "all that was made is removed"
        status = Status.CANCELLED if verdict is None else Status.FAILED
        if verdict is None:
            verdict = Verdict(reason=Reason.CANCELLED, message=f"the create was cancelled; {told}")
        progress = showing.as_failed(work.at, told)
        await self._working.end(work, status, change, progress=progress, verdict=verdict, result=note)

    async def _left(self, work: Work, reason: Reason, message: str) -> None:
        """The provider refuses, or time is up: what there is stays, is listed, and can be deleted again."""
        operation = work.at.operation
        message = _together(message, work.cluster.roles_left)
        now = self._working.ports.clock.now()
        change = changed(work.cluster, now=now, state=State.FAILED, reason=reason, detail=message)
        first = operation.verdict
        told = f"{first.message}; {message}" if first is not None else message
        verdict = Verdict(reason=first.reason if first is not None else reason, message=told)
        progress = showing.as_failed(work.at, message)
        await self._working.end(work, Status.FAILED, change, progress=progress, verdict=verdict)


def _together(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
