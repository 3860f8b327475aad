"""The settings [aks], and the table [templates.NAME.cluster]."""

from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain.errors import InvalidRequest
from muster.domain.template import CLUSTER, TemplateSpec
from muster.integrations.aks import vm_size
from muster.integrations.aks.reading import read
from muster.integrations.aks.spec import AksSpec


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


def _sizes(_spec: TemplateSpec, cluster: AksSpec) -> None:
    """None of the value's own rules: what is stored must be readable by a server whose table is another."""
    for number, pool in enumerate(cluster.pools):
        vm_size.check(f"{CLUSTER}.pools[{number}].vm_size", pool.vm_size)


def _as_it_is(_name: str, value: object) -> object:
    """`read` checks all of it together."""
    return value


TEMPLATE = TemplateTable(
    name=CLUSTER,
    kind=AksSpec,
    keys={each.name: _as_it_is for each in fields(AksSpec)},
    read=read,
    provider="aks",
    needs=("subscription", "resource_group", "region", "pools"),
    rule=_sizes,
)
