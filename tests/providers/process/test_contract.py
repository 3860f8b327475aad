import pytest

from muster.providers.process.sandbox import Isolation
from tests.providers.process.test_sandbox import needs_bubblewrap
from tests.providers.process.yard import Yard
from tests.providers.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Scene


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
