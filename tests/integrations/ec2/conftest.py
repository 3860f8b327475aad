from collections.abc import AsyncIterator, Iterator

import pytest

from fakes.ec2 import FakeEc2, Signer
from muster.integrations.ec2.provider import Ec2Provider
from tests.integrations.ec2.region import Region


@pytest.fixture(scope="session")
def signer() -> Signer:
    """One for all: making a key takes a while."""
    return Signer()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "fake")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "fake")


@pytest.fixture
def fake(signer: Signer) -> Iterator[FakeEc2]:
    """Instances are records: nothing boots."""
    with FakeEc2(boots=False, signer=signer) as fake:
        yield fake


@pytest.fixture
async def region(fake: FakeEc2) -> AsyncIterator[Region]:
    region = Region(fake)
    yield region
    await region.close()


@pytest.fixture
def provider(region: Region) -> Ec2Provider:
    return region.provider()
