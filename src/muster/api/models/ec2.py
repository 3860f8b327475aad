"""What a template says about its EC2 machines, over the wire."""

from typing import Annotated, Any, Self

from pydantic import Field

from muster.api.models.base import In, Out, example
from muster.domain.ec2 import Architecture, Ec2Spec

EC2_EXAMPLE: dict[str, Any] = {
    "image": "ami-0123456789abcdef0",
    "subnets": ["subnet-0123456789abcdef0"],
    "security_groups": ["sg-0123456789abcdef0"],
    "instance_profile": "",
    "architecture": "x86_64",
    "disk_gib": 50,
    "price_protection": 100,
    "hop_limit": 1,
}


class Ec2In(In):
    """What the provider `ec2` needs to know of a template."""

    model_config = example(EC2_EXAMPLE)

    image: str
    subnets: list[str]
    security_groups: list[str] = Field(default=[])
    instance_profile: str = ""
    architecture: Annotated[Architecture, Field(strict=False)] = Architecture.X86_64
    disk_gib: int | None = None
    price_protection: int = 100
    hop_limit: int = 1

    def spec(self) -> Ec2Spec:
        return Ec2Spec(
            image=self.image,
            subnets=tuple(self.subnets),
            security_groups=tuple(self.security_groups),
            instance_profile=self.instance_profile,
            architecture=self.architecture,
            disk_gib=self.disk_gib,
            price_protection=self.price_protection,
            hop_limit=self.hop_limit,
        )


class Ec2Out(Out):
    model_config = example(EC2_EXAMPLE)

    image: str
    subnets: list[str]
    security_groups: list[str]
    instance_profile: str
    architecture: Architecture
    disk_gib: int | None
    price_protection: int
    hop_limit: int

    @classmethod
    def of(cls, spec: Ec2Spec) -> Self:
        return cls(
            image=spec.image,
            subnets=list(spec.subnets),
            security_groups=list(spec.security_groups),
            instance_profile=spec.instance_profile,
            architecture=spec.architecture,
            disk_gib=spec.disk_gib,
            price_protection=spec.price_protection,
            hop_limit=spec.hop_limit,
        )
