from collections.abc import Callable

import pytest

from fakes.ec2.machines import Machine
from muster.integrations.ec2.provider import Ec2Provider
from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Subject
from tests.integrations.ec2.region import Region, template


class TestEc2Provider(ProviderContract):
    @pytest.fixture
    def subject(self, region: Region, provider: Ec2Provider, consoles: Callable[[str, str], None]) -> Subject:
        region.fake.faults.capacity = CAPACITY
        return Subject(
            provider=provider,
            neighbour=region.provider(installation_id=OTHER_INSTALLATION),
            write=consoles,
            template=template(),
            size="large",
        )

    @pytest.fixture
    def consoles(
        self, region: Region, tmp_path_factory: pytest.TempPathFactory
    ) -> Callable[[str, str], None]:
        """Machines that never start, and still have a console."""
        root = tmp_path_factory.mktemp("machines")

        def write(instance_id: str, text: str) -> None:
            instance = region.fake.cloud.instances[instance_id]
            if instance.machine is None:
                instance.machine = Machine(root / instance_id, metadata="", sandboxed=True)
            instance.machine.write(text)

        return write
