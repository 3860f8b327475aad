"""Who a joining machine is."""

from dataclasses import dataclass
from typing import Protocol

from muster.domain.trust import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a proof established, and nothing else."""

    provider: str
    machine_id: str
    installation_id: str | None = None
    token: str | None = None
    """Of the launch that the machine belongs to. None: the proof doesn't say, so its provider is asked."""
    since: float | None = None
    """When the machine started, if the proof says."""


class IdentityVerifier(Protocol):
    async def verify(self, proof: str) -> Identity:
        """Check a proof made on the machine. Raises Forbidden, saying what is wrong with the proof.

        Trusts no claim that the proof doesn't cover, and never asks the machine itself.
        """
        ...


class Federation(Protocol):
    def recognises(self, token: str) -> bool:
        """Return whether a token looks like one of this issuer. Proves nothing."""
        ...

    async def verify(self, token: str) -> Workload:
        """Check signature, issuer, audience and times.

        Raises Forbidden, saying what is wrong. Raises NotYet if the issuer's keys are not available now.
        """
        ...
