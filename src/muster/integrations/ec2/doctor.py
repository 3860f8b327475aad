"""What `muster doctor` says about EC2: the settings first, then what AWS answers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.config.values import LOOPBACK
from muster.integration import Check, Machine

if TYPE_CHECKING:
    from muster.config import Config

UNKNOWN = "inst-unknown"
"""Without a server, the installation's id is unknown."""


def checks(machine: Machine) -> Iterator[Check]:
    from muster.domain.errors import MusterError
    from muster.integrations.ec2.tables import EC2

    config = machine.config
    wanted = [each.name for each in config.templates if each.provider == EC2]
    if not config.tables["ec2"].region:
        if wanted:
            words = f"template {wanted[0]} uses the provider ec2, but ec2.region is not set"
            yield Check.failed("ec2", words, "set region under [ec2], or name the server's settings with -f")
        return
    yield _public_url(config)
    try:
        yield from _asked(config, machine.installation_id or UNKNOWN)
    except MusterError as error:
        yield Check.failed("ec2", str(error))


def _public_url(config: "Config") -> Check:
    """Check that machines can reach the server: a loopback address serves only an EC2 on this machine."""
    public = config.server.public_url
    nearby = urlsplit(config.tables["ec2"].endpoint_url or "").hostname in LOOPBACK
    own = [each for each in public if urlsplit(each).hostname in LOOPBACK]
    if nearby or (public and not own):
        return Check.ok("public_url", ", ".join(public) or "this machine's own, as its EC2 is here too")
    words = (
        f"{own[0]} is this machine's own address: machines on EC2 can't reach it"
        if own
        else "server.public_url is not set, so machines don't know what to join"
    )
    return Check.failed("public_url", words, "set server.public_url to an address that the subnets can reach")


def _asked(config: "Config", installation_id: str) -> list[Check]:
    import asyncio

    from muster.domain import deadlines
    from muster.integrations.ec2.api import Aws
    from muster.integrations.ec2.identity import Ec2Verifier
    from muster.integrations.ec2.inspection import Inspection
    from muster.integrations.ec2.tables import Ec2Settings
    from muster.system import SystemClock, SystemIds

    settings = Ec2Settings.of(
        config.tables["ec2"],
        installation_id,
        config.server.public_url,
        lambda spec: deadlines.first_dead_man(spec, config.limits),
    )

    async def ask() -> list[Check]:
        aws = Aws(settings, SystemClock(), SystemIds())
        # As a server would: it doesn't start without the certificate.
        Ec2Verifier(settings, aws, SystemClock())
        templates = [each for each in config.templates if "ec2" in each.tables]
        try:
            return [finding async for finding in Inspection(settings, aws).findings(templates)]
        finally:
            await aws.close()

    return asyncio.run(ask())
