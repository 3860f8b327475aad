"""Create a cluster: prepare, resource group, cluster, roles, ready. Undo it if it fails.

Each request is stored before it is sent, so that a replica that takes over knows what may exist. It looks
before it asks again. A request never changes an existing cluster.
"""

from dataclasses import replace

from muster.domain import cluster_showing as showing
from muster.domain import clustering
from muster.domain import operation as operations
from muster.domain.cluster import UNDOING, Stage, assignment_name, changed, group_tags, tags_of
from muster.domain.cluster import ClusterState as State
from muster.domain.cluster_sight import Sight
from muster.domain.clustering import Act, Decision, Fail, Go, Wait
from muster.domain.errors import (
    GroupMissing,
    NameInUse,
    NotKnownYet,
    ProviderError,
    Refused,
    Throttled,
    TrackLost,
    Uncertain,
)
from muster.domain.operation import Status, Verdict
from muster.domain.reasons import Reason
from muster.operations.cluster_undo import Undoing
from muster.operations.cluster_working import ClusterWorking, Work
from muster.operations.driven_lease import DrivenLease, Next, still_driven
from muster.ports.clusters import Grant, Order

VISIBLE_EVERY = 2.0
"""Seconds between two looks for a resource group that was just made."""


class LookRefused(ProviderError):
    """A look was refused, not the work: its state is unknown."""


class ClusterCreation:
    def __init__(self, working: ClusterWorking, undoing: Undoing) -> None:
        self._working = working
        self._undoing = undoing

    async def advance(self, driven: DrivenLease) -> Next | None:
        operation = await self._working.ports.store.operation(driven.operation_id)
        if not still_driven(operation, driven):
            return None
        work = await self._working.begun(operation, driven)
        if work.cluster.stage in UNDOING:
            return await self._undoing.advance(work)
        if clustering.stopped(operation):
            return await self._working.enter(work, Stage.ABORTING)
        if work.at.now < driven.retry_at:
            return Next(at=driven.retry_at)
        try:
            return await self._made(work)
        except Throttled as wait:
            return await self._held_up(work, wait)
        except LookRefused as error:
            return await self._blind(work, error)
        except Refused as error:
            return await self._fail(work, clustering.refused(work.at, error))
        except ProviderError as error:
            return await self._unseen(work, error)

    async def _made(self, work: Work) -> Next | None:
        match work.cluster.stage:
            case Stage.PREPARING:
                return await self._prepare(work)
            case Stage.GROUP:
                return await self._ensure_group(work)
            case Stage.CREATING:
                return await self._build(work)
            case _:
                late = clustering.overdue(work.at) if work.driven.failures else None
                return await (self._grant(work) if late is None else self._fail(work, late))

    async def _held_up(self, work: Work, wait: Throttled) -> Next | None:
        """Later, as told. What the provider has accepted isn't given up because we may not look at it."""
        accepted = await self._working.store.token(work.cluster.id) is not None
        late = clustering.unseen(work.at) if accepted else clustering.overdue(work.at)
        if late is not None:
            return await self._fail(work, late)
        await self._working.publish(work, str(wait))
        return self._working.later(work, wait.retry_after)

    async def _unseen(self, work: Work, error: ProviderError) -> Next | None:
        """Show a failed look as unknown."""
        late = clustering.unseen(work.at)
        if late is not None:
            return await self._fail(work, late)
        shown = work.at.operation.progress
        parts = showing.unknown(shown.parts) if shown is not None else None
        message = showing.state_words(work.at, None, seen=False)
        await self._working.publish(work, message, parts)
        return self._working.back_off(work, error)

    async def _blind(self, work: Work, error: LookRefused) -> Next | None:
        """We may not look (for a moment) at what is made: that says nothing about it."""
        late = clustering.overdue(work.at)
        if late is not None:
            return await self._fail(work, late)
        shown = work.at.operation.progress
        parts = showing.unknown(shown.parts) if shown is not None else None
        state = showing.state_words(work.at, None, seen=False)
        await self._working.publish(work, f"{state} · {error}", parts)
        return self._working.back_off(work, error)

    async def _seen(self, work: Work) -> Sight | None:
        """Raises LookRefused instead of Refused once there is something that could be lost."""
        try:
            return await self._working.call(work, work.provider.look(work.at.place))
        except Refused as error:
            if work.cluster.asked_at is None:
                raise
            raise LookRefused(str(error)) from error

    # --- step by step -----------------------------------------------------------------------------

    async def _prepare(self, work: Work) -> Next | None:
        await self._working.publish(work, "looking whether the name is free", showing.planned(work.at.plan))
        sight = await self._working.call(work, work.provider.look(work.at.place))
        return await self._follow(work, clustering.prepare(work.at, sight))

    async def _ensure_group(self, work: Work) -> Next | None:
        group = await self._working.call(work, work.provider.group(work.at.place))
        decision = clustering.ensure_group(work.at, group)
        if not isinstance(decision, Act):
            return await self._follow(work, decision, every=VISIBLE_EVERY)
        if (
            work.cluster.group_asked_at is not None
            and work.at.now < work.cluster.group_asked_at + clustering.SURPRISE
        ):
            await self._working.publish(work, "waiting until the resource group is visible")
            return self._working.later(work, VISIBLE_EVERY)
        return await self._make_group(work)

    async def _make_group(self, work: Work) -> Next:
        await self._working.hold(work)
        now = self._working.ports.clock.now()
        await self._working.write(work, changed(work.cluster, now=now, group_asked_at=now))
        region, tags = work.at.plan.region, group_tags(work.at.installation)
        await self._working.publish(work, f"making resource group {work.at.place.group}")
        try:
            await self._working.call(work, work.provider.make_group(work.at.place, region=region, tags=tags))
        except Refused as error:
            if error.reason is not Reason.REGION_MISMATCH:
                raise
            # Somebody made it just now, elsewhere. It is taken as it is, like one that was there before.
            return self._working.later(work, VISIBLE_EVERY)
        return Next(at=now)

    async def _build(self, work: Work) -> Next | None:
        sight = await self._seen(work)
        # A cluster that is complete needs no other word.
        outcome = True if sight is not None and clustering.complete(sight) else await self._outcome(work)
        decision = clustering.build(work.at, sight, outcome)
        if isinstance(decision, Act):
            return await self._ask(work)
        if isinstance(decision, Go) and sight is not None:
            return await self._built(work, sight)
        if isinstance(decision, Wait):
            message = showing.state_words(work.at, sight)
            pools = showing.chips(sight.pools) if sight is not None and sight.pools else None
            await self._working.publish(work, message, pools)
            work.driven.failures = 0
            return self._working.later(work, work.provider.poll_every)
        return await self._follow(work, decision)

    async def _outcome(self, work: Work) -> bool | ProviderError | None:
        """How the work goes that was accepted. None: nothing is known of any; the cluster must tell."""
        token = await self._working.store.token(work.cluster.id)
        if token is None:
            return None
        try:
            return await self._working.call(work, work.provider.follow(work.at.place, token))
        except (Throttled, Uncertain):
            return False
        except TrackLost:
            return None
        except ProviderError as error:
            return error

    async def _ask(self, work: Work) -> Next:
        """The one request that makes a cluster. It says that there must be none of that name."""
        await self._working.hold(work)
        now = self._working.ports.clock.now()
        await self._working.write(work, changed(work.cluster, now=now, asked_at=now, answered=False))
        await self._working.publish(work, "asking the provider for the cluster")
        tags = tags_of(work.cluster, work.at.installation)
        order = Order(place=work.at.place, template=work.template, tags=tags)
        try:
            token = await self._working.call(work, work.provider.create(order))
        except NameInUse:
            return self._working.later(work, VISIBLE_EVERY)  # ours of an earlier try, or somebody's: look
        except (Throttled, Refused) as error:
            await self._answered(work)
            if isinstance(error, GroupMissing) and clustering.group_is_new(work.at):
                raise Throttled(f"{error}; it is too new", VISIBLE_EVERY) from error
            raise
        # Not yet `answered`: for a while a provider may not show what it has accepted.
        at = self._working.ports.clock.now()
        await self._working.write(work, changed(work.cluster, now=at), token=token)
        return Next(at=now)

    async def _answered(self, work: Work) -> None:
        now = self._working.ports.clock.now()
        await self._working.write(work, changed(work.cluster, now=now, answered=True))

    async def _built(self, work: Work, sight: Sight) -> Next:
        await self._working.publish(work, showing.state_words(work.at, sight), showing.chips(sight.pools))
        return await self._working.enter(
            work,
            Stage.GRANTING,
            answered=True,
            principal=sight.principal,
            kubelet=sight.kubelet,
            fqdn=sight.fqdn,
            kubernetes_version=sight.kubernetes_version,
        )

    async def _grant(self, work: Work) -> Next | None:
        await self._working.hold(work)
        wanted = work.at.plan.roles
        for number, role in enumerate(wanted, 1):
            principal = clustering.principal_for(role, work.cluster)
            grant = Grant(
                name=assignment_name(work.cluster, role),
                scope=role.scope,
                role=role.role,
                principal=principal,
            )
            try:
                await self._working.call(work, work.provider.grant(grant))
            except NotKnownYet as error:
                since = work.driven.unknown_since = work.driven.unknown_since or work.at.now
                lost = clustering.principal_lost(work.at, error, since=since) or clustering.overdue(work.at)
                if lost is not None:
                    return await self._fail(work, lost)
                await self._working.publish(work, f"{role.role}: waiting until the new identity is known")
                return self._working.later(work, 2 * VISIBLE_EVERY)
            await self._working.publish(work, f"granted {number} of {len(wanted)}: {role.role}")
        return await self._ready(work)

    # --- ends -------------------------------------------------------------------------------------

    async def _ready(self, work: Work) -> Next | None:
        now = self._working.ports.clock.now()
        if clustering.stopped(work.at.operation):
            return Next(at=now)  # a cancel came first: it is undone
        change = changed(work.cluster, now=now, stage=Stage.DONE, state=State.READY, ready_at=now)
        progress = showing.shown(replace(work.at, cluster=change.after, now=now), message=work.cluster.fqdn)
        await self._working.end(work, Status.SUCCEEDED, change, progress=progress, result=work.cluster.fqdn)
        return None

    async def _follow(self, work: Work, decision: Decision, *, every: float | None = None) -> Next | None:
        match decision:
            case Go(stage=stage, note=note):
                return await self._working.enter(work, stage, note=note)
            case Fail():
                return await self._fail(work, decision)
            case Wait(message=message):
                await self._working.publish(work, message)
            case Act():
                pass
        return self._working.later(work, every or work.provider.poll_every)

    async def _fail(self, work: Work, failure: Fail) -> Next | None:
        """The step is named, the verdict is written, and what was made is undone, unless it is to be kept."""
        operation = work.at.operation
        now = self._working.ports.clock.now()
        if clustering.stopped(operation):
            return Next(at=now)
        cause = failure.verdict
        step = showing.step_name(work.at.plan.create_steps, work.cluster.stage)
        told = Verdict(reason=cause.reason, message=f"{step}: {cause.message}")
        if work.at.plan.keep_failed:
            change = changed(
                work.cluster, now=now, state=State.FAILED, reason=told.reason, detail=told.message
            )
            progress = showing.as_failed(work.at, cause.message)
            await self._working.end(work, Status.FAILED, change, progress=progress, verdict=told)
            return None
        change = changed(work.cluster, now=now, stage=Stage.ABORTING, reason=told.reason, detail=told.message)
        await self._working.write(work, change, operations.failing(operation, told, now=now))
        work.driven.retry_at = 0.0
        return Next(at=now)
