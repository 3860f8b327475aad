"""The parts of this adapter, put together for a server."""

import logging

from muster.integration import Parts, Site
from muster.integrations.ec2.identity import Ec2Verifier
from muster.integrations.ec2.provider import Ec2Provider
from muster.integrations.ec2.tables import EC2, Ec2Config, Ec2Settings

logger = logging.getLogger(__name__)


async def connect(site: Site) -> Parts:
    given: Ec2Config = site.tables[EC2]
    if not site.public and given.endpoint_url is None:
        logger.warning("machines on EC2 can't reach %s: set server.public_url", ", ".join(site.urls))
    settings = Ec2Settings.of(given, site.installation_id, site.urls, site.dead_man)
    provider = Ec2Provider(settings, site.clock, site.ids)
    try:
        await provider.open()
        verifier = Ec2Verifier(settings, provider.aws, site.clock)
    except BaseException:
        await provider.close()
        raise
    return Parts(
        providers=(provider,),
        verifiers={provider.name: verifier},
        starts_with={provider.name: provider.starts_with},
        unisolated={provider.name: "jobs there are root on the machine"},
        close=provider.close,
    )
