from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from fakes.github import GitHubState, WorldTransport
from muster.integrations.github.api import GitHubApi, new_http
from muster.integrations.github.credentials import Credentials, PersonalToken
from muster.integrations.github.registry import GitHubRegistry
from muster.ports.clock import Clock

API = "http://github.test"
TOKEN = "a-personal-token"


@dataclass
class ManualClock(Clock):
    at: float = 1_700_000_000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Site:
    """GitHub without a network, and ways to speak to it."""

    clock: ManualClock = field(default_factory=ManualClock)
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = GitHubState(self.clock.now)

    def http(self) -> httpx.AsyncClient:
        self.clients.append(new_http(WorldTransport(self.world)))
        return self.clients[-1]

    def api(self, credentials: Credentials | None = None) -> GitHubApi:
        given = credentials or PersonalToken(TOKEN)
        return GitHubApi(self.http(), given, self.clock, api_url=API)

    def registry(self, credentials: Credentials | None = None) -> GitHubRegistry:
        return GitHubRegistry(self.api(credentials), self.clock)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for client in made.clients:
        await client.aclose()


@pytest.fixture(scope="session")
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture(scope="session")
def public_key(private_key: str) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(private_key.encode(), password=None)
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )
