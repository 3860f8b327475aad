"""Who a joining machine is."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a proof established. `token` is the launch token that the machine carries."""

    installation_id: str
    provider: str
    machine_id: str
    token: str


class IdentityVerifier(Protocol):
    async def verify(self, proof: str) -> Identity:
        """Checks a proof made on the machine. Raises Forbidden, saying what is wrong with it.

        Never trusts a claim that the proof doesn't cover, and never asks the machine itself.
        """
        ...
