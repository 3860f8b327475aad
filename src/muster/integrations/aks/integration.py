"""What clusters on Azure add to Muster."""

from muster.integration import Integration, Parts, Site


class Aks(Integration):
    name = "aks"
    providers = (name,)

    async def connect(self, site: Site) -> Parts:
        from muster.integrations.aks.lazy_sdk import lazy_sdk
        from muster.integrations.aks.provider import AksProvider

        settings = site.tables[self.name]
        azure = lazy_sdk(settings, site.environment)
        provider = AksProvider(azure, call_timeout=settings.call_timeout, poll_every=settings.poll_every)
        return Parts(cluster_providers=(provider,), close=provider.close)


INTEGRATION = Aks()
