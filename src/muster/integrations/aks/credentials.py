"""Choose Azure's credentials, and check that there are any, before anything is called.

Secrets come from the environment or the platform, never from a file of ours.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.config.values import LOOPBACK
from muster.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

INSTALL = "pip install 'muster-compute[azure]'"
_TENANT = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID")
_PROOFS = ("AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE")


def is_loopback(endpoint: str) -> bool:
    """Return whether it is a simulated Azure on this machine, which asks for no credentials."""
    parts = urlsplit(endpoint)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def installed() -> bool:
    try:
        found = [find_spec(name) for name in ("azure.identity", "azure.mgmt.containerservice", "aiohttp")]
    except ModuleNotFoundError:
        return False
    return all(each is not None for each in found)


def check_installed() -> None:
    if not installed():
        rule = f"needs Azure's SDKs, which are not installed on this server: {INSTALL}"
        raise InvalidRequest("provider", "aks", rule)


def missing(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return which variables a service principal still needs."""
    lacking = [name for name in _TENANT if not environment.get(name)]
    if not any(environment.get(name) for name in _PROOFS):
        lacking.append(" or ".join(_PROOFS))
    return tuple(lacking)


def check_environment(kind: str, environment: Mapping[str, str]) -> None:
    """Check what can be known without a call. Raises InvalidRequest."""
    lacking = missing(environment) if kind == "environment" else ()
    if lacking:
        rule = (
            f"has no credentials on this server: set {', '.join(lacking)}, or choose another [aks] credential"
        )
        raise InvalidRequest("provider", "aks", rule)


def credential(kind: str) -> "AsyncTokenCredential":
    from azure.identity import aio  # noqa: PLC0415 — only where clusters are made

    if kind == "environment":
        return aio.EnvironmentCredential()
    if kind == "managed-identity":
        return aio.ManagedIdentityCredential()
    if kind == "cli":
        return aio.AzureCliCredential()
    return aio.DefaultAzureCredential(exclude_interactive_browser_credential=True)
