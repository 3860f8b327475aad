"""The parts of this adapter, put together for a server."""

import logging
from collections.abc import Sequence

import muster.agent
from muster.integration import Parts, Site
from muster.integrations.ssh.hosts import Hosts, RemoteHost, Tunnel
from muster.integrations.ssh.inventory import Inventory
from muster.integrations.ssh.provider import SshProvider, SshVerifier

logger = logging.getLogger(__name__)

UNISOLATED = "jobs on an ssh host run as its user, who owns more than their directory"


async def connect(site: Site) -> Parts:
    inventory = Inventory.of(site.tables)
    hosts = Hosts(inventory, site.nodes.parent, installation_id=site.installation_id)
    for remote in hosts.serving:
        if remote.host.settings.tunnel is not None:
            remote.tunnel = Tunnel(host=remote.host, ssh=hosts.ssh, server=site.urls[0])
        elif not site.public and not remote.host.local:
            logger.warning(
                "host %s can't reach %s: set server.public_url, or its tunnel",
                remote.name,
                ", ".join(site.urls),
                extra={"provider": "ssh"},
            )

    def servers(remote: RemoteHost) -> Sequence[str]:
        return (remote.tunnel.url,) if remote.tunnel is not None else tuple(site.urls)

    provider = SshProvider(
        hosts,
        installation_id=site.installation_id,
        servers=servers,
        dead_man=site.dead_man,
    )
    return Parts(
        providers=(provider,),
        verifiers={provider.name: SshVerifier(provider)},
        endings=(provider,),
        starts_with={provider.name: lambda _spec: muster.agent.source()},
        unisolated={provider.name: UNISOLATED},
        close=provider.close,
    )
