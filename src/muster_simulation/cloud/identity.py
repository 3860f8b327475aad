"""Make proofs of identity in the simulated cloud, like signed identity documents elsewhere.

A proof names the machine that made it and is checked against the ledger. So no machine can claim to belong to
another launch or installation.
"""

from muster.domain.errors import Forbidden
from muster.ports.identity import Identity
from muster_simulation.cloud.cloud import SimulatedCloud

_SCHEME = "simulated:"


def proof_of(machine_id: str) -> str:
    """What a machine shows to prove who it is."""
    return f"{_SCHEME}{machine_id}"


class SimulatedVerifier:
    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud

    async def verify(self, proof: str) -> Identity:
        entry = self._cloud.ledger.get(proof.removeprefix(_SCHEME))
        if entry is None or not proof.startswith(_SCHEME):
            raise Forbidden("cannot accept the proof: no machine of this cloud made it")
        return Identity(
            installation_id=entry.installation_id,
            provider="simulated",
            machine_id=entry.machine_id,
            token=entry.token,
        )
