"""The steps that remove a cluster: stop the work, remove roles, delete the cluster, then its resource group.

Touches only resources with this installation's tags.
"""

from collections.abc import Awaitable, Callable

from muster.domain.cluster import Place
from muster.domain.cluster_decisions import Done, Outcome
from muster.domain.errors import Refused
from muster.integrations.aks import decisions
from muster.integrations.aks.azure import Azure
from muster.integrations.aks.decisions import Act, Later, outcome
from muster.integrations.aks.plan import assignment_name
from muster.integrations.aks.sight import Sight
from muster.integrations.aks.steps import Stage
from muster.integrations.aks.tables import TEMPLATE
from muster.ports.clusters import ClusterWork, RemovalRefused


class Removal:
    def __init__(self, azure: Azure, *, poll_every: float) -> None:
        self._azure = azure
        self._poll_every = poll_every

    async def remove(self, work: ClusterWork) -> Outcome:
        match Stage(work.cluster.stage):
            case Stage.ABORTING:
                return await self._stop(work)
            case Stage.REVOKING:
                return await self._revoke(work)
            case Stage.DELETING:
                return await self._delete(work)
            case _:
                return await self._clear(work)

    async def _stop(self, work: ClusterWork) -> Outcome:
        if work.cluster.asked_at is None:
            return Done()
        sight = await self._looked(work)
        decision = decisions.stop(work.at, sight)
        if not isinstance(decision, Act):
            return outcome(work.at, decision, sight, every=self._poll_every)
        await work.hold()
        try:
            await work.call(self._azure.abort(work.at.place))
        except Refused as error:
            # What Azure doesn't stop, it finishes: then it can be deleted.
            return Done(note=f"{error}; it is deleted when the provider has finished it")
        return Done()

    async def _revoke(self, work: ClusterWork) -> Outcome:
        """By names that are derived: also what was granted just before a crash is found."""
        if not work.cluster.principal and not work.cluster.kubelet:
            return Done()  # it never came to granting
        await work.hold()
        left = await self._taken_back(work)
        return Done(note=left, facts={"roles_left": left})

    async def _taken_back(self, work: ClusterWork) -> str:
        """Which assignments Azure keeps; the rest is gone."""
        kept: list[str] = []
        for role in TEMPLATE.of(work.template).roles:
            name = assignment_name(work.cluster, role)
            try:
                await work.call(self._azure.revoke(name, role.scope))
            except Refused as error:
                kept.append(f"role assignment {name} ({role.role}) on {role.scope} is left: {error}")
        return "; ".join(kept)

    async def _delete(self, work: ClusterWork) -> Outcome:
        if work.cluster.asked_at is None:
            return Done()
        sight = await self._looked(work)
        decision = decisions.remove(work.at, sight)
        if isinstance(decision, Act):
            await self._deleted(work, self._azure.delete, work.at.place.cluster_id)
        return outcome(work.at, decision, sight, every=self._poll_every)

    async def _clear(self, work: ClusterWork) -> Outcome:
        if work.cluster.asked_at is None and work.cluster.group_asked_at is None:
            return Done()  # nothing was made; perhaps we may not even look
        place = work.at.place
        group = await work.call(self._azure.group(place))
        holdings = await work.call(self._azure.holdings(place)) if group is not None else ()
        decision = decisions.clear(work.at, group, holdings, await self._neighbours(work))
        if isinstance(decision, Done):
            return await self._cleared(work, decision.note)
        if isinstance(decision, Act):
            await self._deleted(work, self._azure.delete_group, place.group_id)
            decision = Later(message=f"removing resource group {place.group}")
        if decision == decisions.EMPTYING:
            return await self._emptied(work)
        return outcome(work.at, decision, None, every=self._poll_every)

    async def _emptied(self, work: ClusterWork) -> Outcome:
        """The cluster is listed, although it wasn't seen when it was to be deleted: it is deleted here."""
        sight = await self._looked(work)
        decision = decisions.remove(work.at, sight) if sight is not None else decisions.EMPTYING
        if isinstance(decision, Done):
            return await self._cleared(work, decision.note)
        if isinstance(decision, Act):
            await self._deleted(work, self._azure.delete, work.at.place.cluster_id)
        return outcome(work.at, decisions.EMPTYING, sight, every=self._poll_every)

    async def _cleared(self, work: ClusterWork, kept: str) -> Done:
        # What was refused then may be granted by now.
        left = await self._taken_back(work) if work.cluster.roles_left else ""
        return Done(note=kept, facts={"roles_left": left})

    async def _deleted(
        self, work: ClusterWork, delete: Callable[[Place], Awaitable[None]], what: str
    ) -> None:
        await work.hold()
        try:
            await work.call(delete(work.at.place))
        except Refused as error:
            raise RemovalRefused(error, what) from error

    async def _neighbours(self, work: ClusterWork) -> list[str]:
        """Our other clusters in the same group, also those that aren't visible in it yet."""
        own = work.at.place.group_id.lower()
        return [each.name async for each, plan in work.neighbours() if plan.place.group_id.lower() == own]

    async def _looked(self, work: ClusterWork) -> Sight | None:
        sight = await work.call(self._azure.look(work.at.place))
        if sight is not None and not work.cluster.answered:
            # What was seen and is gone later doesn't come any more.
            await work.remember(answered=True)
        return sight
