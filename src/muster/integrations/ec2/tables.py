"""The settings [ec2] and the table [templates.NAME.ec2]."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.template import TemplateSpec

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
        checks.matching("image", self.image, _IMAGE, "must be an image id like ami-0123456789abcdef0")
        _all("subnets", self.subnets, _SUBNET, "must be a list of subnet ids like subnet-0123456789abcdef0")
        if not self.subnets:
            raise InvalidRequest("subnets", self.subnets, "must name at least one, and one per zone")
        rule = "must be a list of security group ids like sg-0123456789abcdef0"
        _all("security_groups", self.security_groups, _GROUP, rule)
        if self.instance_profile != "":
            rule = "must be the name or the ARN of an instance profile"
            checks.matching("instance_profile", self.instance_profile, _PROFILE, rule)
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
        checks.matching(field, value, form, rule)
    if len(set(values)) != len(values):
        raise InvalidRequest(field, values, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Config:
    """Where machines of the provider `ec2` come from. Without a region there is no such provider."""

    region: str = ""
    account: str = ""
    """The account whose machines may join; empty: that of the server's own credentials."""
    endpoint_url: str | None = None
    """Only for an EC2 that isn't AWS's."""
    visibility_window: float = 300.0
    """Seconds for which AWS may not show a machine that it made."""
    certificates: Mapping[str, str] = field(default_factory=dict)
    """By region: the certificate, as PEM or as a file of it, that AWS signs identity documents with."""


def _pem(name: str, value: object) -> object:
    """Return a certificate's text, given itself or as the name of a file."""
    if isinstance(value, str) and "BEGIN CERTIFICATE" in value:
        return value
    try:
        return Path(checks.text(name, value, longest=4096)).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            name, value, f"must be a certificate in PEM, or a file of it ({error})"
        ) from error


SETTINGS = Table(
    kind=Ec2Config,
    keys={
        "endpoint_url": values.url,
        "certificates": _pem,
    },
    environment=("region",),
    maps=("certificates",),
)
TEMPLATE = TemplateTable(
    name="ec2",
    kind=Ec2Spec,
    keys={
        "subnets": values.strings,
        "security_groups": values.strings,
        "disk_gib": values.whole(1, DISK_MOST),
        "price_protection": values.whole(1, PERCENT_MOST),
        "hop_limit": values.whole(1, HOPS_MOST),
    },
    provider="ec2",
    needs=("image", "subnets"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Settings:
    region: str
    installation_id: str
    servers: Sequence[str]
    """What machines are told to join."""
    dead_man: Callable[[TemplateSpec], float]
    """Seconds that a machine lives without ever having been heard."""
    account: str = ""
    """Empty: that of the credentials."""
    endpoint_url: str | None = None
    certificates: Mapping[str, str] = field(default_factory=dict)
    """PEM by region."""
    visibility_window: float = 300.0
    call_timeout: float = 30.0
    reads_per_second: float = 2.0
    """For everything that only looks, whatever the number of operations."""
    writes_per_second: float = 5.0

    @classmethod
    def of(
        cls,
        config: Ec2Config,
        installation_id: str,
        servers: Sequence[str],
        dead_man: Callable[[TemplateSpec], float],
    ) -> Self:
        return cls(
            region=config.region,
            installation_id=installation_id,
            servers=tuple(sorted(servers)),  # the same program, whichever replica launches
            dead_man=dead_man,
            account=config.account,
            endpoint_url=config.endpoint_url,
            certificates=config.certificates,
            visibility_window=config.visibility_window,
        )
