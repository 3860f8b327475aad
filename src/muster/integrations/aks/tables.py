"""The settings [aks]."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from muster.config import values
from muster.config.tables import Table
from muster.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AksConfig:
    """Who we are to Azure, and where it is. Secrets come from the environment, never from here."""

    endpoint: str = "https://management.azure.com"
    credential: str = "auto"
    poll_every: float = 20.0
    """Seconds between two looks at a cluster in the making."""


def _endpoint(name: str, value: object) -> object:
    url = str(values.url(name, value))
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in values.LOOPBACK:
        raise InvalidRequest(
            name, value, "must be https, unless it is on this machine: a token is sent there"
        )
    return url


SETTINGS = Table(
    kind=AksConfig,
    keys={
        "endpoint": _endpoint,
        "credential": values.known("auto", "environment", "managed-identity", "cli"),
        "poll_every": values.seconds,
    },
    environment=("endpoint", "credential"),
)
