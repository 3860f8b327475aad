import pytest

from muster.testing.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Subject,
)
from tests.integrations.docker.lab import Lab, template


class TestDockerProvider(ProviderContract):
    @pytest.fixture
    def subject(self, alone: None, lab: Lab) -> Subject:
        return Subject(
            provider=lab.provider(installation_id=INSTALLATION, capacity=CAPACITY),
            neighbour=lab.provider(installation_id=OTHER_INSTALLATION, capacity=CAPACITY),
            write=lab.write,
            template=template(),
        )
