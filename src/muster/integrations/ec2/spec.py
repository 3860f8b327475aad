"""What a template says about its EC2 machines, checked. Nothing here knows how they are made."""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest

EC2 = "ec2"
"""The provider's name."""
DISK_MOST = 16_384
PERCENT_MOST = 999_999
"""AWS takes this for "no limit"."""
HOPS_MOST = 64
_IMAGE = re.compile(r"ami-[0-9a-f]{8,17}", re.ASCII)
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}", re.ASCII)
_GROUP = re.compile(r"sg-[0-9a-f]{8,17}", re.ASCII)
_PROFILE = re.compile(r"(arn:[a-z-]+:iam::\d{12}:instance-profile/)?[\w+=,.@/-]{1,256}", re.ASCII)


class Architecture(StrEnum):
    X86_64 = "x86_64"
    ARM64 = "arm64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Spec:
    image: str
    """An AMI with python3: Amazon Linux 2023 and Ubuntu have it."""
    subnets: tuple[str, ...]
    """One per availability zone: any zone that has capacity may serve."""
    security_groups: tuple[str, ...] = ()
    """None: the network's default group."""
    instance_profile: str = ""
    """For what runs on the node; Muster itself needs no rights there."""
    architecture: Architecture = Architecture.X86_64
    disk_gib: int | None = None
    """None: as large as the image."""
    price_protection: int = 100
    """How many percent above the cheapest fitting type a machine may cost. AWS's own default of 20 drops
    most of what `c* m* r*` allows; twice the price keeps those, and drops what has accelerators."""
    hop_limit: int = 1
    """How far the metadata service is reachable: 1 keeps containers away from it."""

    def __post_init__(self) -> None:
        _matching("image", self.image, _IMAGE, "must be an image id like ami-0123456789abcdef0")
        _all("subnets", self.subnets, _SUBNET, "must be a list of subnet ids like subnet-0123456789abcdef0")
        if not self.subnets:
            raise InvalidRequest("subnets", self.subnets, "must name at least one, and one per zone")
        rule = "must be a list of security group ids like sg-0123456789abcdef0"
        _all("security_groups", self.security_groups, _GROUP, rule)
        if self.instance_profile != "":
            rule = "must be the name or the ARN of an instance profile"
            _matching("instance_profile", self.instance_profile, _PROFILE, rule)
        checks.word("architecture", self.architecture, Architecture)
        if self.disk_gib is not None:
            checks.whole("disk_gib", self.disk_gib, least=1, most=DISK_MOST)
        checks.whole("price_protection", self.price_protection, least=1, most=PERCENT_MOST)
        checks.whole("hop_limit", self.hop_limit, least=1, most=HOPS_MOST)


def _all(field: str, values: object, form: re.Pattern[str], rule: str) -> None:
    rule = f"{rule}, each once"
    if not isinstance(values, tuple):
        raise InvalidRequest(field, values, rule)
    for value in values:
        _matching(field, value, form, rule)
    if len(set(values)) != len(values):
        raise InvalidRequest(field, values, rule)


def _matching(field: str, value: object, form: re.Pattern[str], rule: str) -> None:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InvalidRequest(field, value, rule)
