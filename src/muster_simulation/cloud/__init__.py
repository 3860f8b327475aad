"""A cloud that exists only in memory: for the simulation, for tests, and for trying things out.

Without faults it is quick and honest and runs on any event loop. With faults it is what real clouds are:
slow, forgetful, eventually consistent.
"""

from muster_simulation.cloud.cloud import CloudFaults, SimulatedCloud
from muster_simulation.cloud.ledger import Entry, Ledger
from muster_simulation.cloud.provider import SimulatedProvider, SimulatedVerifier

__all__ = ["CloudFaults", "Entry", "Ledger", "SimulatedCloud", "SimulatedProvider", "SimulatedVerifier"]
