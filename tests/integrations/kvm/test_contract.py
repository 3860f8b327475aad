import pytest

from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Subject
from tests.integrations.kvm.lab import Lab, needs_microvms


@needs_microvms
class TestKvmProviderUnderEmulation(ProviderContract):
    @pytest.fixture
    def subject(self, lab: Lab) -> Subject:
        return Subject(
            provider=lab.provider(capacity=CAPACITY),
            neighbour=lab.provider(OTHER_INSTALLATION),
            write=lab.write,
            template=lab.template(),
        )
