"""API tokens, and what operators set by hand: brakes, and findings that they have seen."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.access import ApiToken
from muster.domain.acknowledgements import Acknowledgement
from muster.ports.verbs import reads, writes


class AccessStore(Protocol):
    @writes
    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None: ...

    @reads
    async def token_for(self, secret_hash: str) -> ApiToken | None:
        """The token of a secret, also if it is expired or revoked: the caller judges."""
        ...

    @reads
    async def tokens(self) -> Sequence[ApiToken]:
        """All, oldest first, at most 1,000."""
        ...

    @writes
    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        """Idempotent. Raises NotFound."""
        ...

    @writes
    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        """Hold back new launches and claims of a template (None: of all). Idempotent, with an event."""
        ...

    @reads
    async def paused(self, template: str) -> bool:
        """Whether the template, or everything, is paused."""
        ...

    @reads
    async def pauses(self) -> Sequence[str | None]:
        """What is paused: names of templates, and None for everything."""
        ...

    @writes
    async def acknowledge(self, given: Acknowledgement) -> None:
        """Replaces an earlier one of the same finding, with an event. Forgets those that are `KEPT` old."""
        ...

    @writes
    async def unacknowledge(self, finding: str, *, now: float, actor: str = "") -> None:
        """Idempotent, with an event."""
        ...

    @reads
    async def acknowledgements(self) -> Sequence[Acknowledgement]:
        """By finding, at most 1,000. Some may be older than `KEPT`."""
        ...
