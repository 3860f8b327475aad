"""A cloud that exists only in memory: for the simulation, for tests, and for trying things out.

Without faults it is quick and honest and runs on any event loop. With faults it is what real clouds are:
slow, forgetful, eventually consistent.
"""

from muster.providers.simulated.cloud import SimulatedCloud
from muster.providers.simulated.faults import CloudFaults
from muster.providers.simulated.identity import SimulatedVerifier
from muster.providers.simulated.ledger import Entry, Ledger
from muster.providers.simulated.provider import SimulatedProvider

__all__ = ["CloudFaults", "Entry", "Ledger", "SimulatedCloud", "SimulatedProvider", "SimulatedVerifier"]
