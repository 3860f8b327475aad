import pytest

from muster.integrations.process.sandbox import Isolation
from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Scene
from tests.integrations.process.test_sandbox import needs_bubblewrap
from tests.integrations.process.yard import Yard


class TestProcessProvider(ProviderContract):
    @pytest.fixture
    def scene(self, yard: Yard) -> Scene:
        return Scene(
            provider=yard.provider(capacity=CAPACITY),
            neighbour=yard.provider(installation_id=OTHER_INSTALLATION),
            write=yard.write,
        )


@needs_bubblewrap
class TestProcessProviderInASandbox(ProviderContract):
    @pytest.fixture
    def scene(self, yard: Yard) -> Scene:
        return Scene(
            provider=yard.provider(capacity=CAPACITY, isolation=Isolation.SANDBOX),
            neighbour=yard.provider(installation_id=OTHER_INSTALLATION, isolation=Isolation.SANDBOX),
            write=yard.write,
        )
