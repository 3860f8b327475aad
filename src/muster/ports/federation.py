"""Workloads that prove who they are by somebody else's signature, instead of holding a token of ours."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job of a workflow run, as its issuer vouches for it."""

    repository: str
    ref: str
    run_id: int
    attempt: int
    environment: str = ""
    workflow_ref: str = ""
    """The workflow file that defines the job, and at which ref."""


class Federation(Protocol):
    def recognises(self, token: str) -> bool:
        """Whether it looks like a token of this issuer's kind. Proves nothing."""
        ...

    async def verify(self, token: str) -> Workload:
        """Checks signature, issuer, audience and times. Raises Forbidden, saying what is wrong, and NotYet if
        the issuer's keys can't be had at present."""
        ...
