from random import Random

import pytest

from muster.providers.simulated import SimulatedCloud, SimulatedProvider
from muster.system import SystemClock
from tests.providers.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Scene,
)


class TestSimulatedProvider(ProviderContract):
    @pytest.fixture
    def scene(self) -> Scene:
        clock = SystemClock()
        cloud = SimulatedCloud(clock=clock, random=Random(1), capacity=CAPACITY)
        return Scene(
            provider=SimulatedProvider(cloud, clock=clock, installation_id=INSTALLATION, page=2),
            neighbour=SimulatedProvider(cloud, clock=clock, installation_id=OTHER_INSTALLATION),
            write=cloud.write,
        )
