"""API tokens, and what operators set by hand: brakes, and findings that they have seen."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.access import ApiToken, DeviceRequest
from muster.domain.overview import Acknowledgement
from muster.ports.verbs import reads, writes


class AccessStore(Protocol):
    @writes
    async def add_token(self, token: ApiToken, *, secret_hash: str, actor: str = "") -> None:
        """Store a token. Raises Conflict if its id or secret is there. A session or login that is added
        deletes some that ended longer than `ENDED_KEPT` ago."""
        ...

    @reads
    async def token_for(self, secret_hash: str) -> ApiToken | None:
        """Return the token of a secret, also an expired or revoked one: the caller judges."""
        ...

    @reads
    async def tokens(self) -> Sequence[ApiToken]:
        """Return all tokens, oldest first, at most 1,000."""
        ...

    @writes
    async def revoke_token(self, token_id: str, *, now: float, actor: str = "") -> ApiToken:
        """Revoke a token. Idempotent. Raises NotFound."""
        ...

    @writes
    async def touch_token(self, token_id: str, *, now: float) -> None:
        """Record that a token was used. It moves `seen_at` forward only, without an event; an unknown token
        is ignored."""
        ...

    @writes
    async def add_device(self, request: DeviceRequest, *, secret_hash: str, most: int) -> None:
        """Store the request of a terminal. Delete those that have expired, and those that must make room for
        it (`domain.access.displaced`), so that at most `most` wait.

        Raises Conflict if the user code or the secret is there.
        """
        ...

    @reads
    async def device(self, user_code: str) -> DeviceRequest | None:
        """Return the request with this code, also an expired or settled one: the caller judges."""
        ...

    @reads
    async def device_for(self, secret_hash: str) -> DeviceRequest | None:
        """Return the request of a terminal's secret, likewise."""
        ...

    @writes
    async def settle_device(self, user_code: str, token: ApiToken | None, *, now: float, actor: str) -> None:
        """Settle a waiting request: add the token, with the terminal's secret, or deny it (None).

        Raises NotFound for an unknown code. Raises Conflict if the request is settled or has expired, and
        then adds nothing.
        """
        ...

    @writes
    async def pause(self, template: str | None, *, paused: bool, now: float, actor: str = "") -> None:
        """Hold back new launches and claims of a template (None: of all). Idempotent, with an event.

        From the return on, the store refuses them to every replica (`Store.claim`, `Store.reserve`).
        """
        ...

    @reads
    async def paused(self, template: str) -> bool:
        """Return whether the template, or everything, is paused."""
        ...

    @reads
    async def pauses(self) -> Sequence[str | None]:
        """Return what is paused: names of templates, and None for everything."""
        ...

    @writes
    async def acknowledge(self, given: Acknowledgement) -> None:
        """Store an acknowledgement with an event, in place of an earlier one of the same finding. Delete
        those that are older than `KEPT`."""
        ...

    @writes
    async def unacknowledge(self, finding: str, *, now: float, actor: str = "") -> None:
        """Delete an acknowledgement, with an event. Idempotent."""
        ...

    @reads
    async def acknowledgements(self) -> Sequence[Acknowledgement]:
        """Return the acknowledgements by finding, at most 1,000. Some may be older than `KEPT`."""
        ...
