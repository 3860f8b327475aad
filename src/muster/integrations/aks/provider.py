"""The cluster port over Azure: the steps, and what they do."""

from collections.abc import Mapping, Sequence

from muster.domain.cluster import Cluster, ClusterPlan, Place
from muster.domain.cluster_decisions import Outcome
from muster.domain.ids import InstallationId
from muster.domain.template import TemplateSpec
from muster.integrations.aks.azure import Azure
from muster.integrations.aks.creation import Creation
from muster.integrations.aks.plan import plan
from muster.integrations.aks.removal import Removal
from muster.integrations.aks.steps import STEPS, state_words
from muster.integrations.aks.tables import AKS
from muster.ports.clusters import ClusterWork


class AksProvider:
    """Implements muster.ports.clusters.ClusterProvider."""

    name = AKS
    steps = STEPS

    def __init__(self, azure: Azure, *, call_timeout: float = 30.0, poll_every: float = 20.0) -> None:
        self.call_timeout = call_timeout
        self.poll_every = poll_every
        self._azure = azure
        self._creation = Creation(azure, poll_every=poll_every)
        self._removal = Removal(azure, poll_every=poll_every)

    def plan(self, name: str, spec: TemplateSpec) -> ClusterPlan:
        return plan(name, spec)

    def unseen(self, cluster: Cluster, *, now: float) -> str:
        return state_words(cluster, None, now=now, seen=False)

    async def check(self, spec: TemplateSpec) -> None:
        await self._azure.check(spec)

    async def make(self, work: ClusterWork) -> Outcome:
        return await self._creation.make(work)

    async def remove(self, work: ClusterWork) -> Outcome:
        return await self._removal.remove(work)

    async def tags(self, place: Place) -> Mapping[str, str] | None:
        sight = await self._azure.look(place)
        return None if sight is None else sight.tags

    async def list(
        self, account: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        return await self._azure.list(account, installation)

    async def close(self) -> None:
        await self._azure.close()
