import pytest

from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Scene
from tests.integrations.kvm.yard import Yard, needs_microvms


@needs_microvms
class TestKvmProviderUnderEmulation(ProviderContract):
    @pytest.fixture
    def scene(self, yard: Yard) -> Scene:
        return Scene(
            provider=yard.provider(capacity=CAPACITY),
            neighbour=yard.provider(OTHER_INSTALLATION),
            write=yard.write,
            template=yard.template(),
        )
