"""What the provider `example` adds to Muster. Cheap to import: the rest is imported when it is asked for."""

from muster.integration import Integration, Parts


class Example(Integration):
    name = "example"
    providers = (name,)
    setup = "set capacity under [example]"

    async def connect(self, site):
        from muster_example_provider.provider import ExampleProvider, ExampleVerifier

        settings = site.tables[self.name]
        root = settings.directory or site.nodes.parent / "example"
        provider = ExampleProvider(
            root, installation_id=site.installation_id, servers=site.urls, capacity=settings.capacity
        )
        return Parts(providers=(provider,), verifiers={self.name: ExampleVerifier(provider)})


INTEGRATION = Example()
