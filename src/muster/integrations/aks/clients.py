"""The SDKs' clients, one set per subscription, made when they are first needed and closed together.

The clients don't retry: the operation knows better when to ask again. A loopback address gets a plain token:
it has no TLS and is a simulated Azure.
"""

from dataclasses import dataclass
from typing import Any

from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.authorization.v2022_04_01.aio import AuthorizationManagementClient
from azure.mgmt.containerservice.aio import ContainerServiceClient
from azure.mgmt.resource.resources.aio import ResourceManagementClient

from muster.integrations.aks.credentials import is_loopback


class _PlainToken(SansIOHTTPPolicy[Any, Any]):
    """Send a worthless token to a listener on this machine."""

    def on_request(self, request: PipelineRequest[Any]) -> None:
        request.http_request.headers["Authorization"] = "Bearer simulated"


class _NoCredential(AsyncTokenCredential):
    async def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        return AccessToken("simulated", 1 << 40)

    async def close(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    clusters: ContainerServiceClient
    resources: ResourceManagementClient
    roles: AuthorizationManagementClient

    async def close(self) -> None:
        for client in (self.clusters, self.resources, self.roles):
            await client.close()


def no_credential() -> AsyncTokenCredential:
    return _NoCredential()


def make_clients(
    subscription: str, endpoint: str, credential: AsyncTokenCredential, *, timeout: float
) -> Clients:
    options: dict[str, Any] = {
        "base_url": endpoint,
        "credential_scopes": [f"{endpoint.rstrip('/')}/.default"],
        "retry_total": 0,
        "connection_timeout": timeout,
        "read_timeout": timeout,
    }
    if is_loopback(endpoint):
        options["authentication_policy"] = _PlainToken()
    return Clients(
        clusters=ContainerServiceClient(credential, subscription, **options),
        resources=ResourceManagementClient(credential, subscription, **options),
        roles=AuthorizationManagementClient(credential, subscription, **options),
    )
