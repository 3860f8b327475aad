import pytest

from muster.integrations.process.sandbox import Isolation
from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Subject
from tests.integrations.process.lab import Lab
from tests.integrations.process.test_sandbox import needs_bubblewrap


class TestProcessProvider(ProviderContract):
    @pytest.fixture
    def subject(self, lab: Lab) -> Subject:
        return Subject(
            provider=lab.provider(capacity=CAPACITY),
            neighbour=lab.provider(installation_id=OTHER_INSTALLATION),
            write=lab.write,
        )


@needs_bubblewrap
class TestProcessProviderInASandbox(ProviderContract):
    @pytest.fixture
    def subject(self, lab: Lab) -> Subject:
        return Subject(
            provider=lab.provider(capacity=CAPACITY, isolation=Isolation.SANDBOX),
            neighbour=lab.provider(installation_id=OTHER_INSTALLATION, isolation=Isolation.SANDBOX),
            write=lab.write,
        )
