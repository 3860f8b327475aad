"""The settings [ec2] and the table [templates.NAME.ec2]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.integrations.ec2.spec import DISK_MOST, HOPS_MOST, PERCENT_MOST, Architecture, Ec2Spec


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
    """Its text, or the name of a file that holds it."""
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
        "region": values.text,
        "account": values.text,
        "endpoint_url": values.url,
        "visibility_window": values.seconds,
        "certificates": _pem,
    },
    environment=("region",),
    maps=("certificates",),
)
TEMPLATE = TemplateTable(
    name="ec2",
    kind=Ec2Spec,
    keys={
        "image": values.text,
        "subnets": values.strings,
        "security_groups": values.strings,
        "instance_profile": values.text,
        "architecture": values.one_of(Architecture),
        "disk_gib": values.whole(1, DISK_MOST),
        "price_protection": values.whole(1, PERCENT_MOST),
        "hop_limit": values.whole(1, HOPS_MOST),
    },
    provider="ec2",
    needs=("image", "subnets"),
)
