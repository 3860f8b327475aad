"""What the simulation adds to Muster: its commands."""

from collections.abc import Mapping
from typing import ClassVar

from muster.integration import TRYING, Command, Integration


class Simulation(Integration):
    name = "simulation"
    commands: ClassVar[Mapping[str, Command]] = {
        "demo-aks": Command(
            TRYING, "See clusters created and deleted on a simulated Azure.", "muster_simulation.demo_aks"
        ),
        "simulate": Command(
            TRYING,
            "Run the control plane in a simulation with faults.",
            "muster_simulation.simulate_command",
        ),
    }


INTEGRATION = Simulation()
