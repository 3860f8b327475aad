"""A cloud that exists only in memory: for the simulation, for tests, and for trying things out.

Without faults it is quick and honest and runs on any event loop. With faults it is what real clouds are:
slow, forgetful, eventually consistent.
"""

from muster_simulation.cloud.cloud import SimulatedCloud
from muster_simulation.cloud.faults import CloudFaults
from muster_simulation.cloud.identity import SimulatedVerifier
from muster_simulation.cloud.ledger import Entry, Ledger
from muster_simulation.cloud.provider import SimulatedProvider

__all__ = ["CloudFaults", "Entry", "Ledger", "SimulatedCloud", "SimulatedProvider", "SimulatedVerifier"]
