"""Pages of the event feed, read and encoded once for all streams at the same place.

Full pages don't change any more and are kept in a small memory. A page that isn't full is read again.
Streams that ask at the same time share one read. A read that began before a stream asked may lack the new
event, so that stream waits for the next read.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from muster.domain import events as domain
from muster.ports.store import Cursor, Store
from muster.single_flight import SingleFlight
from muster.wire.base import encode
from muster.wire.events import Event

PAGE = 200
"""Events."""
PIECE = 64 << 10
"""Bytes that are sent at once: what is kept for a reader that doesn't read is little more."""
KEPT = 8 << 20
"""Bytes of pages in memory, of all places together."""
Place = tuple[Cursor | None, str | None]
"""After which cursor, and the events of which entity alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    pieces: tuple[bytes, ...]
    next: Cursor | None
    full: bool

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


class FeedPages:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._full: dict[Place, FeedPage] = {}
        self._looks: SingleFlight[Place, FeedPage] = SingleFlight()

    async def get(self, after: Cursor | None, entity_id: str | None) -> FeedPage:
        place = (after, entity_id)
        known = self._full.get(place)
        if known is not None:
            await asyncio.sleep(0)  # a stream that has far to go lets others have their turn
            return known
        return await self._looks.get_later(place, lambda: self._read(place))

    async def _read(self, place: Place) -> FeedPage:
        found = await self._store.events(after=place[0], limit=PAGE, entity_id=place[1])
        full = len(found.items) == PAGE
        page = FeedPage(pieces=_pieces(found.items, found.next), next=found.next, full=full)
        if page.full:
            self._keep(place, page)
        return page

    def _keep(self, place: Place, page: FeedPage) -> None:
        self._full[place] = page
        while sum(each.size for each in self._full.values()) > KEPT:
            del self._full[next(iter(self._full))]


def sse_message(data: bytes, *, event: str, place: str | None) -> bytes:
    """Return one server-sent message. JSON has no bare line breaks, so its data is one line."""
    named = f"id: {place}\n" if place is not None else ""
    return f"event: {event}\n{named}data: ".encode() + data + b"\n\n"


def _pieces(events: Sequence[domain.Event], end: Cursor | None) -> tuple[bytes, ...]:
    whole = b"".join(
        sse_message(
            encode(Event.of(event)),
            event=event.name,
            place=str(end) if number == len(events) else None,
        )
        for number, event in enumerate(events, 1)
    )
    return tuple(whole[start : start + PIECE] for start in range(0, len(whole), PIECE))
