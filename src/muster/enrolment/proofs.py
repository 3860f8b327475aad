"""Split a proof into provider and evidence: each proof begins with the name of its provider."""

from collections.abc import Mapping

from muster.domain.errors import Forbidden
from muster.ports.identity import Identity, IdentityVerifier


class Verifiers:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, by_provider: Mapping[str, IdentityVerifier]) -> None:
        self._by_provider = by_provider

    async def verify(self, proof: str) -> Identity:
        verifier = self._by_provider.get(proof.partition(":")[0])
        if verifier is None:
            known = ", ".join(sorted(self._by_provider))
            raise Forbidden(f"cannot accept the proof: it is of no kind that this server knows ({known})")
        return await verifier.verify(proof)
