"""An EC2 that keeps state, speaks EC2's own protocol to the real SDK, and really boots its instances.

server          HTTP for API and metadata, in a thread     query_protocol  forms in, XML out
cloud           what exists, and the verbs over it         catalogue       instance types and their prices
fleets          instant fleets: types, pools, capacity     faults          what goes wrong next
machines        user data as a sandboxed process           signing         identity documents, signed
"""

from fakes.ec2.faults import Boot, Faults
from fakes.ec2.server import FakeEc2
from fakes.ec2.signing import Signer

__all__ = ["Boot", "FakeEc2", "Faults", "Signer"]
