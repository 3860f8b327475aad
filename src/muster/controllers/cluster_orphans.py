"""Delete clusters that appear after their record says deleted.

A request to a provider can't be fenced: a paused replica may send it after another replica has undone
everything. Clusters with this installation's tags and a deleted record are deleted. Clusters without a
record are only logged, because a store that was restored from a backup knows less than the provider.
"""

import asyncio
import logging
from collections.abc import Mapping

from muster.domain.cluster import CLUSTER_TAG, Cluster, ClusterState, Place, is_ours
from muster.domain.errors import Conflict, InvalidRequest, NotFound, ProviderError
from muster.domain.ids import ClusterId, InstallationId
from muster.operations.cluster_desk import ClusterDesk
from muster.ports.bundle import Ports
from muster.ports.clusters import ClusterProvider
from muster.ports.paging import pages

logger = logging.getLogger(__name__)

PAGE = 200


class ClusterOrphans:
    def __init__(self, ports: Ports, desk: ClusterDesk) -> None:
        self._ports = ports
        self._desk = desk
        self._told: dict[str, None] = {}

    async def reconcile(self) -> None:
        known = await self._accounts()
        installation = (await self._ports.store.installation()).id if known else InstallationId("")
        for name, account in known:
            provider = self._ports.cluster_providers.get(name)
            if provider is not None:
                await self._sweep(provider, account, installation)

    async def _accounts(self) -> dict[tuple[str, str], None]:
        """By provider: of the templates, and of every cluster on record, whose template may have changed."""
        found: dict[tuple[str, str], None] = {}
        specs = {(each.spec.name, each.revision): each.spec for each in await self._ports.store.templates()}
        states, clusters = tuple(ClusterState), self._ports.clusters
        async for page in pages(lambda after: clusters.clusters(states=states, after=after, limit=PAGE)):
            for name, revision in {(each.template, each.revision) for each in page.items} - specs.keys():
                specs[name, revision] = (await self._ports.store.template(name, revision)).spec
        for spec in specs.values():
            provider = self._ports.cluster_providers.get(spec.provider)
            if provider is not None:
                found[spec.provider, provider.plan(spec.name, spec).place.account] = None
        return found

    async def _sweep(self, provider: ClusterProvider, account: str, installation: InstallationId) -> None:
        try:
            async with asyncio.timeout(provider.call_timeout):
                found = await provider.list(account, installation)
        except (ProviderError, InvalidRequest, TimeoutError) as error:
            logger.info(
                "cannot look for forgotten clusters", extra={"provider": provider.name, "error": str(error)}
            )
            return
        for place, tags in found:
            await self._judge(provider, place, tags, installation)

    async def _judge(
        self, provider: ClusterProvider, place: Place, tags: Mapping[str, str], installation: InstallationId
    ) -> None:
        try:
            record = await self._ports.clusters.cluster(ClusterId(tags.get(CLUSTER_TAG, "")))
        except NotFound:
            self._tell(place)
            return
        if record.state is not ClusterState.DELETED or not is_ours(tags, record, installation):
            return
        if not await self._still_there(provider, record, place, installation):
            return
        try:
            await self._desk.reclaim(record)
        except Conflict:
            return  # another replica did, or its name lives again: the next round sees
        logger.warning(
            "deleting a cluster whose record says deleted",
            extra={"provider": provider.name, "cluster": record.id},
        )

    async def _still_there(
        self, provider: ClusterProvider, record: Cluster, place: Place, installation: InstallationId
    ) -> bool:
        """A list may be older than what it lists."""
        template = await self._ports.store.template(record.template, record.revision)
        own = provider.plan(record.name, template.spec).place
        if own.cluster_id.lower() != place.cluster_id.lower():
            return False
        try:
            async with asyncio.timeout(provider.call_timeout):
                tags = await provider.tags(place)
        except (ProviderError, TimeoutError):
            return False
        return tags is not None and is_ours(tags, record, installation)

    def _tell(self, place: Place) -> None:
        """Log it once per process: only a person can act on it."""
        if place.cluster_id not in self._told:
            self._told[place.cluster_id] = None
            logger.warning("a cluster has the tags of this installation and no record: %s", place.cluster_id)
