"""The steps that make a cluster: name, resource group, cluster, roles.

Each request is remembered before it is sent. A step looks before it asks again. A request never changes an
existing cluster.
"""

from muster.domain.cluster import tags_of
from muster.domain.cluster_decisions import Done, Fail, Outcome, Wait, overdue
from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.aks import decisions
from muster.integrations.aks.azure import Azure, Grant, GroupMissing, NameInUse, NotKnownYet, Order, TrackLost
from muster.integrations.aks.decisions import Act, Later, outcome
from muster.integrations.aks.plan import assignment_name, principal_for
from muster.integrations.aks.sight import Sight
from muster.integrations.aks.steps import Stage, chips, planned, state_words
from muster.integrations.aks.tables import TEMPLATE
from muster.ports.clusters import ClusterWork, LookRefused

VISIBLE_EVERY = 2.0
"""Seconds between two looks for a resource group that was just made."""
SOON = Wait(seconds=VISIBLE_EVERY)
AT_ONCE = Wait(seconds=0.0)


class Creation:
    def __init__(self, azure: Azure, *, poll_every: float) -> None:
        self._azure = azure
        self._poll_every = poll_every

    async def make(self, work: ClusterWork) -> Outcome:
        match Stage(work.cluster.stage):
            case Stage.PREPARING:
                return await self._prepare(work)
            case Stage.GROUP:
                return await self._ensure_group(work)
            case Stage.CREATING:
                return await self._build(work)
            case _:
                late = overdue(work.at) if work.failures else None
                return late or await self._grant(work)

    async def _prepare(self, work: ClusterWork) -> Outcome:
        await work.publish("looking whether the name is free", planned(TEMPLATE.of(work.template)))
        sight = await work.call(self._azure.look(work.at.place))
        return outcome(work.at, decisions.prepare(work.at, sight), sight, every=self._poll_every)

    # --- the group --------------------------------------------------------------------------------

    async def _ensure_group(self, work: ClusterWork) -> Outcome:
        group = await work.call(self._azure.group(work.at.place))
        decision = decisions.ensure_group(work.at, group)
        if isinstance(decision, Later):
            return Wait(seconds=VISIBLE_EVERY, message=decision.message)
        if not isinstance(decision, Act):
            return decision
        asked = work.cluster.group_asked_at
        if asked is not None and work.at.now < asked + decisions.SURPRISE:
            return Wait(seconds=VISIBLE_EVERY, message="waiting until the resource group is visible")
        return await self._make_group(work)

    async def _make_group(self, work: ClusterWork) -> Outcome:
        await work.hold()
        await work.remember(group_asked_at=work.now())
        region, tags = work.at.plan.region, decisions.group_tags(work.at.installation)
        await work.publish(f"making resource group {work.at.place.group}")
        try:
            await work.call(self._azure.make_group(work.at.place, region=region, tags=tags))
        except Refused as error:
            if error.reason is not Reason.REGION_MISMATCH:
                raise
            # Another program made it just now. It is taken as it is, like one that was there before.
            return SOON
        return AT_ONCE

    # --- the cluster ------------------------------------------------------------------------------

    async def _build(self, work: ClusterWork) -> Outcome:
        sight = await self._seen(work)
        # A cluster that is complete needs no other word.
        done = sight is not None and decisions.complete(sight)
        decision = decisions.build(work.at, sight, True if done else await self._followed(work))
        if isinstance(decision, Act):
            return await self._ask(work)
        if isinstance(decision, Done) and sight is not None:
            return await self._built(work, sight)
        return outcome(work.at, decision, sight, every=self._poll_every)

    async def _seen(self, work: ClusterWork) -> Sight | None:
        """Raises LookRefused instead of Refused once there is something that could be lost."""
        try:
            return await work.call(self._azure.look(work.at.place))
        except Refused as error:
            if work.cluster.asked_at is None:
                raise
            raise LookRefused(str(error)) from error

    async def _followed(self, work: ClusterWork) -> bool | ProviderError | None:
        """How the work goes that was accepted. None: nothing is known of any; the cluster must tell."""
        token = await work.token()
        if token is None:
            return None
        try:
            return await work.call(self._azure.follow(work.at.place, token))
        except (Throttled, Uncertain):
            return False
        except TrackLost:
            return None
        except ProviderError as error:
            return error

    async def _ask(self, work: ClusterWork) -> Outcome:
        """The one request that makes a cluster. It says that there must be none of that name."""
        await work.hold()
        await work.remember(asked_at=work.now(), answered=False)
        await work.publish("asking the provider for the cluster")
        tags = tags_of(work.cluster, work.at.installation)
        order = Order(place=work.at.place, template=work.template, tags=tags)
        try:
            token = await work.call(self._azure.create(order))
        except NameInUse:
            return SOON  # ours of an earlier try, or not ours: look
        except (Throttled, Refused) as error:
            await work.remember(answered=True)
            if isinstance(error, GroupMissing) and decisions.group_is_new(work.at):
                raise Throttled(f"{error}; it is too new", VISIBLE_EVERY) from error
            raise
        # Not yet `answered`: for a while Azure may not show what it has accepted.
        await work.remember(token=token)
        return AT_ONCE

    async def _built(self, work: ClusterWork, sight: Sight) -> Done:
        await work.publish(state_words(work.cluster, sight, now=work.at.now), chips(sight.pools))
        return Done(
            facts={
                "answered": True,
                "principal": sight.principal,
                "kubelet": sight.kubelet,
                "fqdn": sight.fqdn,
                "kubernetes_version": sight.kubernetes_version,
            }
        )

    # --- roles ------------------------------------------------------------------------------------

    async def _grant(self, work: ClusterWork) -> Outcome:
        await work.hold()
        wanted = TEMPLATE.of(work.template).roles
        for number, role in enumerate(wanted, 1):
            grant = Grant(
                name=assignment_name(work.cluster, role),
                scope=role.scope,
                role=role.role,
                principal=principal_for(role, work.cluster),
            )
            try:
                await work.call(self._azure.grant(grant))
            except NotKnownYet as error:
                lost: Fail | None = decisions.principal_lost(work.at, error, since=work.unknown_since())
                message = f"{role.role}: waiting until the new identity is known"
                return lost or overdue(work.at) or Wait(seconds=2 * VISIBLE_EVERY, message=message)
            await work.publish(f"granted {number} of {len(wanted)}: {role.role}")
        return Done()
