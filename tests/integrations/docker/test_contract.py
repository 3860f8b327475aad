import pytest

from muster.testing.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Scene,
)
from tests.integrations.docker.yard import Yard, template


class TestDockerProvider(ProviderContract):
    @pytest.fixture
    def scene(self, alone: None, yard: Yard) -> Scene:
        return Scene(
            provider=yard.provider(installation_id=INSTALLATION, capacity=CAPACITY),
            neighbour=yard.provider(installation_id=OTHER_INSTALLATION, capacity=CAPACITY),
            write=yard.write,
            template=template(),
        )
