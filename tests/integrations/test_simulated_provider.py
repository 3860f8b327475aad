from random import Random

import pytest

from muster.system import SystemClock
from muster.testing.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Subject,
)
from muster_simulation.cloud import SimulatedCloud, SimulatedProvider


class TestSimulatedProvider(ProviderContract):
    @pytest.fixture
    def subject(self) -> Subject:
        clock = SystemClock()
        cloud = SimulatedCloud(clock=clock, random=Random(1), capacity=CAPACITY)
        return Subject(
            provider=SimulatedProvider(cloud, clock=clock, installation_id=INSTALLATION, page=2),
            neighbour=SimulatedProvider(cloud, clock=clock, installation_id=OTHER_INSTALLATION),
            write=cloud.write,
        )
