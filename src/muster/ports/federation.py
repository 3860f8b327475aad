"""Workloads that prove who they are by somebody else's signature, instead of holding a token of ours."""

from typing import Protocol

from muster.domain.trust import Workload


class Federation(Protocol):
    def recognises(self, token: str) -> bool:
        """Whether it looks like a token of this issuer's kind. Proves nothing."""
        ...

    async def verify(self, token: str) -> Workload:
        """Checks signature, issuer, audience and times. Raises Forbidden, saying what is wrong, and NotYet if
        the issuer's keys can't be had at present."""
        ...
