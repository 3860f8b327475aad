"""Who a joining machine is."""

from dataclasses import dataclass
from typing import Protocol

from muster.domain.access import Role
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec


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


class Confinement(Protocol):
    """What a workload that signed in by an issuer's signature is held to: its own run, and the rules."""

    @property
    def owner(self) -> str:
        """The trust domain whose nodes it may have and see."""
        ...

    @property
    def run(self) -> str:
        """The only run that it may ask for."""
        ...

    @property
    def name(self) -> str:
        """Which piece of work it is, for the audit trail."""
        ...

    @property
    def role(self) -> Role: ...

    def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Raise Forbidden for a request that no rule allows."""
        ...

    def granting(self, template: str) -> object:
        """Raise Forbidden for a template that no rule names."""
        ...


class Federation(Protocol):
    def recognises(self, token: str) -> bool:
        """Return whether a token looks like one of this issuer. Proves nothing."""
        ...

    async def admit(self, token: str) -> Confinement:
        """Check signature, issuer, audience and times, then the rules of the operator.

        Raises Unproven for a token that proves nothing, saying what is wrong, and Forbidden for a workload
        that no rule covers. Raises NotYet if the issuer's keys are not available now.
        """
        ...
