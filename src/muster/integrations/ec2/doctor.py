"""What `muster doctor` says about EC2: the settings first, then what AWS answers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.integration import Check, Level, Machine

if TYPE_CHECKING:
    from muster.config import Config
    from muster.integrations.ec2.inspection import AwsCheck

LOOPBACK = ("127.0.0.1", "::1", "localhost")
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
        for finding in _asked(config, machine.installation_id or UNKNOWN):
            yield _check(finding)
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


def _asked(config: "Config", installation_id: str) -> "list[AwsCheck]":
    import asyncio

    from muster.domain import deadlines
    from muster.integrations.ec2.api import Aws
    from muster.integrations.ec2.identity import Ec2Verifier
    from muster.integrations.ec2.inspection import Inspection
    from muster.integrations.ec2.tables import Ec2Settings
    from muster.system import SystemClock, SystemIds

    ec2 = config.tables["ec2"]
    settings = Ec2Settings(
        region=ec2.region,
        installation_id=installation_id,
        servers=tuple(sorted(config.server.public_url)),
        dead_man=lambda spec: deadlines.first_dead_man(spec, config.limits),
        account=ec2.account,
        endpoint_url=ec2.endpoint_url,
        certificates=ec2.certificates,
    )

    async def ask() -> "list[AwsCheck]":
        aws = Aws(settings, SystemClock(), SystemIds())
        # As a server would: it doesn't start without the certificate.
        Ec2Verifier(settings, aws, SystemClock())
        templates = [each for each in config.templates if "ec2" in each.tables]
        try:
            return [finding async for finding in Inspection(settings, aws).findings(templates)]
        finally:
            await aws.close()

    return asyncio.run(ask())


def _check(finding: "AwsCheck") -> Check:
    bad = Level.FAILED if finding.fatal else Level.WARNING
    return Check(
        subject=finding.subject,
        level=Level.OK if finding.fine else bad,
        words=finding.words,
        advice=finding.advice,
    )
