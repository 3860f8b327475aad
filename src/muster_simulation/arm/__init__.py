"""Azure's resource manager, as far as clusters need it, with the faults of the real one.

resources   what there is, and how it changes with time     faults     what goes wrong, when, how often
clusters    the cluster port over it, for virtual time      server     HTTP over it, for the real SDKs
wire        its JSON
"""

from muster_simulation.arm.clusters import SimulatedClusters
from muster_simulation.arm.faults import ArmError, Fault, Faults
from muster_simulation.arm.resources import Arm, Asked, AskedPool, Paces

__all__ = ["Arm", "ArmError", "Asked", "AskedPool", "Fault", "Faults", "Paces", "SimulatedClusters"]
