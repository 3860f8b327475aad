"""What clusters on Azure add to Muster."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.integration import Integration, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable


class Aks(Integration):
    name = "aks"
    providers = (name,)

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.aks.tables import SETTINGS

        return {self.name: SETTINGS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.aks.tables import TEMPLATE

        return (TEMPLATE,)

    async def connect(self, site: Site) -> Parts:
        from muster.integrations.aks.lazy_provider import AksSettings, lazy_provider

        given = site.tables[self.name]
        settings = AksSettings(
            endpoint=given.endpoint, credential=given.credential, poll_every=given.poll_every
        )
        provider = lazy_provider(settings, site.environment)
        return Parts(cluster_providers=(provider,), close=provider.close)


INTEGRATION = Aks()
