"""Who a joining machine is."""

from dataclasses import dataclass
from typing import Protocol


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
        """Checks a proof made on the machine. Raises Forbidden, saying what is wrong with it.

        Never trusts a claim that the proof doesn't cover, and never asks the machine itself.
        """
        ...
