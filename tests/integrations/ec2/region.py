"""A fake region, and installations that use it through the real SDK."""

from typing import Any

from aiobotocore.session import get_session

from fakes.ec2 import FakeEc2
from muster.domain.template import TemplateSpec
from muster.integrations.ec2.provider import Ec2Provider
from muster.integrations.ec2.tables import Ec2Settings, Ec2Spec
from muster.ports.provider import LaunchRequest
from muster.system import SystemClock, SystemIds
from muster.testing.provider_contract import INSTALLATION, asking

NAME = "eu-west-1"
IMAGE = "ami-00000000000000001"
SUBNETS = ("subnet-0000000000000000a", "subnet-0000000000000000b")


def spec(**more: Any) -> Ec2Spec:
    return Ec2Spec(**{"image": IMAGE, "subnets": SUBNETS, **more})


def template(name: str = "work", **more: Any) -> TemplateSpec:
    return TemplateSpec(name=name, provider="ec2", tables={"ec2": spec(**more)})


def wanting(token: str = "t1", count: int = 1, **more: Any) -> LaunchRequest:
    return asking(token, count, **{"size": "large", "template": template(), **more})


class Region:
    def __init__(self, fake: FakeEc2) -> None:
        self.fake = fake
        self._made: list[Ec2Provider] = []

    def settings(self, **more: Any) -> Ec2Settings:
        given = {
            "region": NAME,
            "installation_id": INSTALLATION,
            "servers": ("http://127.0.0.1:8420",),
            "dead_man": lambda _template: 1740.0,
            "endpoint_url": self.fake.url,
            "certificates": {NAME: self.fake.signer.pem},
            "reads_per_second": 10_000.0,
            "writes_per_second": 10_000.0,
        }
        return Ec2Settings(**{**given, **more})

    def provider(self, **more: Any) -> Ec2Provider:
        made = Ec2Provider(self.settings(**more), SystemClock(), SystemIds())
        self._made.append(made)
        return made

    @staticmethod
    def fresh_session() -> object:
        """One that has looked for no credentials yet."""
        return get_session()

    async def close(self) -> None:
        for provider in self._made:
            await provider.close()
