"""What the provider is told at start."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.domain.template import TemplateSpec


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
