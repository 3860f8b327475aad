"""Keep lists of nodes in memory, for a replica that sees every commit of its store.

Duties read whole lists of nodes every few seconds, page by page. A list begins with the pages that were read,
and commits bring it up to date. A page from memory is the page that the store would give.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter

from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.ports.store import Cursor, Page
from muster.stores import cursors

_KIND = "nodes"
_ID = attrgetter("id")


class NodeLists:
    """`most`: how many lists are kept: those that were asked for last. `longest`: how many nodes of each.
    `shared` returns the node under which the replica knows a record that was read, so that each is kept
    once."""

    def __init__(self, shared: Callable[[Node], Node], *, most: int, longest: int) -> None:
        self._shared = shared
        self._most = most
        self._longest = longest
        self._lists: dict[tuple[tuple[NodeState, ...], str | None], _List] = {}
        self._changes = 0
        """A read during which this moved may have missed a commit."""

    async def page(
        self,
        states: Sequence[NodeState],
        template: str | None,
        after: Cursor | None,
        limit: int,
        read: Callable[[], Awaitable[Page[Node]]],
    ) -> Page[Node]:
        asked = tuple(states), template
        start = "" if after is None else cursors.decode(_KIND, after, str)[0]
        known = self._lists.pop(asked, None)
        if known is not None:
            self._lists[asked] = known  # the last to be dropped
            found = known.page(start, limit)
            if found is not None:
                return found
        changes = self._changes
        page = await read()
        # What has ended is only ever read for a caller, and there is no end of it.
        if changes == self._changes and NodeState.TERMINATED not in states:
            page = Page(items=tuple(map(self._shared, page.items)), next=page.next)
            known = self._lists.get(asked)
            if known is None:
                known = self._begun(asked, start)
            if known is not None:
                known.extend(start, page, self._longest)
        return page

    def _begun(self, asked: tuple[tuple[NodeState, ...], str | None], start: str) -> "_List | None":
        """Return a new list in the place of the one that was not asked for the longest. None: it can't begin
        with this page."""
        if start:
            return None
        while len(self._lists) >= self._most:
            del self._lists[next(iter(self._lists))]
        self._lists[asked] = _List(*asked)
        return self._lists[asked]

    def changed(self, node: Node) -> None:
        """Note a node as a commit left it."""
        self._changes += 1
        for asked, each in tuple(self._lists.items()):
            if each.changed(node) > self._longest:
                del self._lists[asked]

    def clear(self) -> None:
        self._changes += 1
        self._lists.clear()


class _List:
    """The nodes in some states, of one template or of all, as far as they were read."""

    def __init__(self, states: tuple[NodeState, ...], template: str | None) -> None:
        self._states = states
        self._template = template
        self._items: list[Node] = []
        """By id."""
        self._known_to: str | None = ""
        """The highest id up to which the list is known. None: it is known to its end."""
        self._goes_on = False
        """Whether there certainly is a node behind that."""

    def page(self, start: str, limit: int) -> Page[Node] | None:
        """Return what follows an id. None: too little is known."""
        place = bisect_right(self._items, start, key=_ID)
        some = self._items[place : place + limit + 1]
        if len(some) <= limit and self._known_to is not None:
            if len(some) < limit or not self._goes_on:
                return None
            return Page(items=tuple(some), next=cursors.encode(_KIND, some[-1].id))
        return cursors.page(some, limit, _KIND, place=lambda node: (node.id,))

    def extend(self, start: str, page: Page[Node], longest: int) -> None:
        """Take a page that was read, if it leaves no gap."""
        if self._known_to is None or start > self._known_to:
            return
        place = bisect_right(self._items, start, key=_ID)
        if place + len(page.items) > longest:
            return
        self._items[place:] = page.items
        self._known_to = None if page.next is None else page.items[-1].id
        self._goes_on = page.next is not None

    def changed(self, node: Node) -> int:
        """Return how many nodes the list has then."""
        if self._known_to is not None and node.id > self._known_to:
            self._goes_on = False
            return len(self._items)
        place = bisect_left(self._items, node.id, key=_ID)
        there = place < len(self._items) and self._items[place].id == node.id
        wanted = node.state in self._states and self._template in (None, node.template)
        self._items[place : place + there] = [node] if wanted else []
        return len(self._items)
