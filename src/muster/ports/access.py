"""API tokens, and the brakes that operators pull."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.access import ApiToken


class AccessStore(Protocol):
    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None: ...

    async def token_for(self, secret_hash: str) -> ApiToken | None:
        """The token of a secret, also if it is expired or revoked: the caller judges."""
        ...

    async def tokens(self) -> Sequence[ApiToken]:
        """All, oldest first, at most 1,000."""
        ...

    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        """Idempotent. Raises NotFound."""
        ...

    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        """Hold back new launches and claims of a template (None: of all). Idempotent, with an event."""
        ...

    async def paused(self, template: str) -> bool:
        """Whether the template, or everything, is paused."""
        ...

    async def pauses(self) -> Sequence[str | None]:
        """What is paused: names of templates, and None for everything."""
        ...
