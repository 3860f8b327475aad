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
        from muster.integrations.aks.lazy_sdk import lazy_sdk
        from muster.integrations.aks.provider import AksProvider

        settings = site.tables[self.name]
        azure = lazy_sdk(settings, site.environment)
        provider = AksProvider(azure, call_timeout=settings.call_timeout, poll_every=settings.poll_every)
        return Parts(cluster_providers=(provider,), close=provider.close)


INTEGRATION = Aks()
