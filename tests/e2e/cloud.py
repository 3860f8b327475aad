"""A site whose nodes are instances of the fake EC2: real server, real SDK, real user data, real agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes.ec2 import FakeEc2
from fakes.ec2.cloud import Instance
from muster.client import calls
from muster.domain.template import TemplateSpec, UsageClass
from muster.integrations.ec2.tables import Ec2Spec
from muster.wire.nodes import Node
from tests.e2e.site import BRISK, Site

IMAGE = "ami-00000000000000001"
SUBNETS = ("subnet-0000000000000000a", "subnet-0000000000000000b")
WINDOW = 3.0
"""Seconds for which this EC2 may not show what it made."""


def config(fake: FakeEc2) -> str:
    return f"""
{BRISK}
[ec2]
region = "{fake.region.name}"
endpoint_url = "{fake.url}"
visibility_window = {WINDOW}
[ec2.certificates]
{fake.region.name} = '''
{fake.signer.pem}'''
"""


class CloudSite:
    """A site and its EC2."""

    def __init__(self, site: Site, fake: FakeEc2) -> None:
        self.site = site
        self.fake = fake

    def template(self, name: str = "ci", *, image: str = IMAGE, **fields: Any) -> None:
        spec = Ec2Spec(image=image, subnets=SUBNETS)
        given = {"provider": "ec2", "resource_class": "large", "tables": {"ec2": spec}, **fields}
        self.site.client.send(calls.apply(TemplateSpec(name=name, **given)))

    def machine(self, node: Node) -> Instance:
        return self.fake.cloud.instances[node.machine_id]

    def there(self) -> Sequence[Instance]:
        """Of this site, and not terminated."""
        own = self.site.installation_id
        return [each for each in self.fake.instances() if each.tags["muster:installation"] == own]

    @property
    def spot_first(self) -> tuple[UsageClass, ...]:
        return (UsageClass.SPOT, UsageClass.ON_DEMAND)

    def proof(self, instance: Instance) -> str:
        signed = self.fake.cloud.metadata(instance, "dynamic/instance-identity/rsa2048") or b""
        return "ec2:" + "".join(signed.decode().split())

    def disk(self, instance: Instance) -> Path:
        """What the machine sees as /var/lib/muster."""
        assert instance.machine is not None
        return instance.machine.disk

    def consoles(self) -> str:
        own = self.site.installation_id
        found = self.fake.instances(there=False)
        machines = [
            each.machine
            for each in found
            if each.machine is not None and each.tags["muster:installation"] == own
        ]
        return "\n".join(machine.console().decode(errors="replace") for machine in machines)
