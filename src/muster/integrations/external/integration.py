"""What the provider `external` adds to Muster."""

from muster.integration import Integration, Parts, Site


class External(Integration):
    name = "external"
    providers = (name,)

    async def connect(self, site: Site) -> Parts:
        from muster.integrations.external.provider import ExternalProvider

        provider = ExternalProvider(
            site.store,
            site.clock,
            installation_id=site.installation_id,
            lost_after=site.limits.lost_after,
        )
        return Parts(providers=(provider,))


INTEGRATION = External()
