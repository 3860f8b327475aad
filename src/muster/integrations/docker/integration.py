"""What the provider `docker` adds to Muster."""

from muster.integration import Integration


class Docker(Integration):
    name = "docker"
    providers = (name,)
    setup = "name an engine: [docker.NAME] with its host. See docs/docker.md"


INTEGRATION = Docker()
