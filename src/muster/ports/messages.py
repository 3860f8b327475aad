"""Messages of a webhook that were not delivered yet. For contracts of all verbs see `ports.store`."""

from collections.abc import Sequence
from typing import Protocol

from muster.domain.undelivered import Backlog, Undelivered
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes


class MessageStore(Protocol):
    @reads
    async def undelivered(
        self, *, webhook: str | None, after: Cursor | None = None, limit: int
    ) -> Page[Undelivered]:
        """Return the messages of a webhook, or of all, by id."""
        ...

    @reads
    async def backlogs(self) -> Sequence[Backlog]:
        """Count the messages of each webhook that has some, by its name.

        Reads no events, and may answer from a moment ago.
        """
        ...

    @writes
    async def keep_undelivered(self, message: Undelivered) -> None:
        """Keep a message, with its event if it is given up at once. One with this id stays as it is."""
        ...

    @writes
    async def write_undelivered(self, before: Undelivered, after: Undelivered | None) -> None:
        """Write a message, guarded by its version, with its event if it is given up. None: it was delivered,
        or is forgotten. Raises Conflict."""
        ...

    @writes
    async def prune_undelivered(self, *, before: float) -> None:
        """Delete the messages that were first wanted before this time, of every webhook and in any state."""
        ...
