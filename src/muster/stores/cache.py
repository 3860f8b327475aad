"""Answer from memory what can't have changed in the store.

This module owns how old an answer may be. A replica that is `alone` on its store sees every commit and drops
what a commit changed, and the lists that it may have changed. Commits bring lists of nodes up to date. Where
replicas share a store, only settings and API tokens are kept. A replica that changes any of it wakes the
others (ACCESS), and they forget it. If that wake-up is lost, they forget it after SETTLED seconds.

No answer from memory decides: the store guards every write. A write that a guard refused (Conflict,
LeaseLost), or whose end is unknown (StoreUnavailable), drops all records, so that the next read is new.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar, cast

from muster.domain.access import ApiToken
from muster.domain.deadlines import CLOCK_ERROR
from muster.domain.errors import Conflict, LeaseLost, StoreUnavailable
from muster.domain.events import Entity
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Fence, Operation, OperationEvent
from muster.domain.template import Template
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.commits import Written
from muster.ports.store import (
    NO_NODES,
    Alive,
    Beat,
    Cursor,
    Installation,
    NodeView,
    OperationView,
    Page,
    Store,
    operation_of,
)
from muster.ports.verbs import reads_of
from muster.ports.wakeups import ACCESS, Wakeups
from muster.stores.node_lists import NodeLists

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SETTLED = 1.0
LISTENED = 3600.0
"""A wait for a wake-up ends after so long and begins anew."""
RECORDS_MOST = 4096
NODES_MOST = 50_000
"""Records of nodes: of all that a server carries. Less than 1 KiB each."""
VIEWS_MOST = 1024
SPEAKERS_MOST = 20_000
SETTINGS_MOST = 512
SEEN_MOST = 50_000
LISTS_MOST = 16
"""Answers per verb that lists records: a few pages of a few states and templates."""
_LISTS: Mapping[str, Sequence[Entity]] = {
    "templates": (Entity.TEMPLATE,),
    "count_nodes": (Entity.NODE,),
    "undiagnosed": (Entity.NODE, Entity.DIAGNOSIS),
    "launches_to_close": (Entity.LAUNCH, Entity.OPERATION),
    "operations": (Entity.OPERATION,),
    "pool": (Entity.OPERATION,),
    "usage": (Entity.NODE, Entity.LAUNCH, Entity.INSTALLATION),
}
"""Verbs that a replica alone on its store answers from memory, and whose events change the answers. Duties
ask these every few seconds, and mostly nothing happened meanwhile. Lists of nodes aren't here: the events of
nodes bring them up to date."""
MOVES_OPERATION = (NodeState.FAILED, NodeState.RELEASING, NodeState.TERMINATING)
"""A node that goes there before the commit moves the version of its operation, of which no event tells."""
_DOUBTS = (Conflict, LeaseLost, StoreUnavailable)
_READS = reads_of(Store)
_UNTOLD = ("seize", "expire_leases", "prune")
"""Verbs that change, or forget, records without an event."""


_NO_ENTRY: tuple[None, float] = (None, 0.0)


class Kept(Generic[K, V]):
    """Answers by key, for so many seconds, the oldest dropped first."""

    def __init__(self, clock: Clock, *, most: int, seconds: float = inf) -> None:
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._lasts = seconds == inf
        self._entries: dict[K, tuple[V, float]] = {}
        self._reads: dict[K, object] = {}
        """Reads under way. One that isn't here any more when it ends may have missed a change."""

    def get(self, key: K) -> V | None:
        value, since = self._entries.get(key, _NO_ENTRY)
        if self._lasts:
            return value
        # A clock that was set back must not make an answer last.
        fresh = value is not None and 0.0 <= self._clock.now() - since < self._seconds
        return value if fresh else None

    async def read(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        known = self.get(key)
        if known is not None:
            return known
        now, mine = self._clock.now(), object()
        read = self._reads.setdefault(key, mine)
        try:
            found = await find()
            if self._reads.get(key) is read and found is not None:
                self.put(key, found, now=now)
            return found
        finally:
            if read is mine and self._reads.get(key) is mine:
                del self._reads[key]

    def put(self, key: K, value: V, *, now: float | None = None) -> None:
        self.forget(key)
        if not self._most:
            return
        while len(self._entries) >= self._most:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (value, self._clock.now() if now is None else now)

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)
        self._reads.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
        self._reads.clear()


class Settled(Protocol):
    """Remembers what seldom changes."""

    def forget_settled(self) -> None: ...


async def follow_revocations(wakeups: Wakeups, *memories: Settled) -> None:
    """Forget what another replica says that it changed. Runs until it is cancelled."""
    listener = wakeups.listen((ACCESS,))
    try:
        while True:
            if await listener.wait(LISTENED):
                for memory in memories:
                    memory.forget_settled()
    finally:
        listener.close()


class CachedAccess:
    """Implements muster.ports.access.AccessStore."""

    def __init__(self, inner: AccessStore, clock: Clock, *, alone: bool) -> None:
        self._inner = inner
        seconds = inf if alone else SETTLED
        self._tokens: Kept[str, ApiToken | None] = Kept(clock, most=SETTINGS_MOST, seconds=seconds)
        self._paused: Kept[str, bool] = Kept(clock, most=SETTINGS_MOST, seconds=seconds)

    def as_access(self) -> AccessStore:
        return cast("AccessStore", self)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._inner, verb)

    async def token_for(self, secret_hash: str) -> ApiToken | None:
        return await self._tokens.read(secret_hash, lambda: self._inner.token_for(secret_hash))

    async def touch_token(self, token_id: str, *, now: float) -> None:
        try:
            await self._inner.touch_token(token_id, now=now)
        finally:
            self._tokens.clear()  # no event tells of it

    async def paused(self, template: str) -> bool:
        return await self._paused.read(template, lambda: self._inner.paused(template))

    def saw(self, written: Iterable[Written]) -> None:
        if any(each.draft.entity is Entity.INSTALLATION for each in written):
            self.forget_settled()

    def forget_settled(self) -> None:
        self._tokens.clear()
        self._paused.clear()


class CachedStore:
    """Implements muster.ports.store.Store: verbs that aren't here go to the store as they are."""

    def __init__(
        self, inner: Store, clock: Clock, *, alone: bool, revoked: Callable[[], None] = lambda: None
    ) -> None:
        """Wrap a store. `revoked` tells the other replicas that a node's token died."""
        self._inner = inner
        self._alone = alone
        self._revoked = revoked
        settled = inf if alone else SETTLED
        self._templates: Kept[tuple[str, int | None], Template] = Kept(
            clock, most=SETTINGS_MOST, seconds=settled
        )
        self._installation: Kept[str, Installation] = Kept(clock, most=1, seconds=settled)
        self._speakers: Kept[str, NodeId | None] = Kept(clock, most=SPEAKERS_MOST if alone else 0)
        records = RECORDS_MOST if alone else 0
        self._nodes: Kept[NodeId, Node] = Kept(clock, most=NODES_MOST if alone else 0)
        self._node_lists = NodeLists(self._known_as, most=LISTS_MOST, longest=NODES_MOST)
        self._operations: Kept[OperationId, Operation] = Kept(clock, most=records)
        self._views: Kept[OperationId, OperationView] = Kept(clock, most=VIEWS_MOST if alone else 0)
        self._seen: dict[NodeId, float] = {}
        self._latest = 0.0
        """No time in it is later."""
        self._lists: dict[str, Kept[Hashable, Any]] = {
            verb: Kept(clock, most=LISTS_MOST) for verb in (_LISTS if alone else ())
        }

    def as_store(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, verb: str) -> Any:
        """Return a verb. One that lists records answers from memory; a failed write drops all records."""
        call = getattr(self._inner, verb)
        lists = self._lists.get(verb)
        if lists is not None:
            listed = _listed(lists, call)
            setattr(self, verb, listed)
            return listed
        if verb in _READS:
            setattr(self, verb, call)
            return call

        async def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                with self._doubting():
                    return await call(*args, **kwargs)
            finally:
                if verb in _UNTOLD:
                    self._forget_records()

        setattr(self, verb, guarded)
        return guarded

    @contextmanager
    def _doubting(self) -> Iterator[None]:
        """Drop all records if a write is refused, or if its end is unknown."""
        try:
            yield
        except _DOUBTS:
            self._forget_records()
            raise

    async def lease(self, owner: str, **given: Any) -> Sequence[Operation]:
        with self._doubting():
            taken = await self._inner.lease(owner, **given)
        self._forget_operations(operation.id for operation in taken)
        return taken

    async def renew(self, owner: str, fences: Sequence[Fence], **given: Any) -> Sequence[Fence]:
        with self._doubting():
            kept = await self._inner.renew(owner, fences, **given)
        self._forget_operations(fence.operation_id for fence in fences)
        return kept

    # --- settings ---------------------------------------------------------------------------------

    async def installation(self) -> Installation:
        return await self._installation.read("", self._inner.installation)

    async def template(self, name: str, revision: int | None = None) -> Template:
        return await self._templates.read((name, revision), lambda: self._inner.template(name, revision))

    # --- who speaks -------------------------------------------------------------------------------

    async def node_for_token(self, token_hash: str) -> NodeId | None:
        return await self._speakers.read(token_hash, lambda: self._inner.node_for_token(token_hash))

    async def node_view_for_token(self, token_hash: str) -> NodeView | None:
        if not self._alone:
            return await self._inner.node_view_for_token(token_hash)
        node_id = await self.node_for_token(token_hash)
        return None if node_id is None else await self.node_view(node_id)

    async def admit(self, change: NodeChange | None, node_id: NodeId, **given: Any) -> None:
        try:
            with self._doubting():
                await self._inner.admit(change, node_id, **given)
        finally:
            self._speakers.clear()  # the node's older token dies
            if change is None or change.before is None or change.before.joined_at is not None:
                self._revoked()

    async def enrol(self, node: Node, **given: Any) -> Node:
        try:
            with self._doubting():
                return await self._inner.enrol(node, **given)
        finally:
            self._speakers.clear()
            self._revoked()

    # --- records ----------------------------------------------------------------------------------

    async def node(self, node_id: NodeId) -> Node:
        return await self._nodes.read(node_id, lambda: self._inner.node(node_id))

    async def nodes(
        self, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
    ) -> Page[Node]:
        def read() -> Awaitable[Page[Node]]:
            return self._inner.nodes(states=states, template=template, after=after, limit=limit)

        return await (self._node_lists.page(states, template, after, limit, read) if self._alone else read())

    def _known_as(self, node: Node) -> Node:
        """Return the kept record of a node that was read now, so that lists and looks share one."""
        known = self._nodes.get(node.id)
        if known == node:
            return known
        self._nodes.put(node.id, node)
        return node

    async def operation(self, operation_id: OperationId) -> Operation:
        return await self._operations.read(operation_id, lambda: self._inner.operation(operation_id))

    async def node_view(self, node_id: NodeId) -> NodeView:
        if not self._alone:
            return await self._inner.node_view(node_id)
        node = await self.node(node_id)
        return NodeView(node=node, operation=await operation_of(self.as_store(), node))

    async def view(self, operation_id: OperationId) -> OperationView:
        found = await self._views.read(operation_id, lambda: self._inner.view(operation_id))
        later = {node.id: self._seen[node.id] for node in found.nodes if node.id in self._seen}
        return replace(found, seen={**found.seen, **later}) if later else found

    async def record_beats(self, beats: Sequence[Beat], alive: Alive = NO_NODES) -> None:
        try:
            await self._inner.record_beats(beats, alive)
        except StoreUnavailable:
            self._seen.clear()  # the store may know later beats
            self._forget_records()
            raise
        if not self._alone:
            return
        if len(self._seen) > SEEN_MOST:
            self._seen.clear()
            self._views.clear()
        for beat in beats:
            self._remember_seen(beat.seen_at, (beat.node_id,))
        for at, node_ids in alive.items():
            self._remember_seen(at, node_ids)

    def _remember_seen(self, at: float, node_ids: Iterable[NodeId]) -> None:
        seen = self._seen
        if at >= self._latest:
            self._latest = at
            seen.update(dict.fromkeys(node_ids, at))
            return
        for node_id in node_ids:
            if not at <= seen.get(node_id, 0.0) <= at + CLOCK_ERROR:
                seen[node_id] = at

    async def last_seen(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
        known = [self._nodes.get(node_id) for node_id in node_ids]
        if all(node is not None and node.state in LIVE and node.id in self._seen for node in known):
            return {node_id: self._seen[node_id] for node_id in node_ids}
        return await self._inner.last_seen(node_ids)

    # --- what changed -----------------------------------------------------------------------------

    def saw(self, written: Iterable[Written]) -> None:
        """Note the commits of this replica, right after each one."""
        for each in written:
            for verb in _CHANGED.get(each.draft.entity, ()):
                self._forget_list(verb)
            match each.draft.entity:
                case Entity.NODE:
                    self._node_changed(each)
                case Entity.OPERATION:
                    self._operation_changed(each)
                case Entity.LAUNCH:
                    for operation_id in each.operation_ids:
                        self._views.forget(operation_id)
                case Entity.TEMPLATE | Entity.INSTALLATION:
                    self.forget_settled()
                case _:
                    pass

    def forget_settled(self) -> None:
        """Drop what another replica may have changed."""
        self._templates.clear()
        self._installation.clear()

    def _node_changed(self, written: Written) -> None:
        node = written.record
        if not isinstance(node, Node):
            self._node_lists.clear()
            self._nodes.forget(NodeId(written.draft.entity_id))
            self._forget_operations(written.operation_ids)
            return
        self._nodes.put(node.id, node)
        self._node_lists.changed(node)
        for operation_id in written.operation_ids:
            known = self._operations.get(operation_id)
            if node.state in MOVES_OPERATION and (known is None or not known.committed):
                self._forget_operations((operation_id,))
                continue
            view = self._views.get(operation_id)
            if view is None or self._was_seen_before(node, view):
                self._views.forget(operation_id)
            else:
                self._views.put(operation_id, _with_node(view, node))

    def _was_seen_before(self, node: Node, view: OperationView) -> bool:
        """Return whether only the store knows the last contact: the node was claimed and has not beaten
        since this replica started."""
        return node.state is NodeState.CLAIMED and node.id not in self._seen and node.id not in view.seen

    def _operation_changed(self, written: Written) -> None:
        operation = written.record
        if "queued_since" in written.draft.changes and written.draft.name != OperationEvent.SUBMITTED:
            self._views.clear()  # their order may have changed
        if not isinstance(operation, Operation):
            self._forget_operations((OperationId(written.draft.entity_id),))
            return
        self._operations.put(operation.id, operation)
        view = self._views.get(operation.id)
        if view is not None:
            self._views.put(operation.id, replace(view, operation=operation))
        else:
            self._views.forget(operation.id)

    def _forget_operations(self, operation_ids: Iterable[OperationId]) -> None:
        for operation_id in operation_ids:
            self._operations.forget(operation_id)
            self._views.forget(operation_id)
            self._forget_list("operations")

    def _forget_list(self, verb: str) -> None:
        lists = self._lists.get(verb)
        if lists is not None:
            lists.clear()

    def _forget_records(self) -> None:
        self._nodes.clear()
        self._node_lists.clear()
        self._operations.clear()
        self._views.clear()
        self._speakers.clear()
        for verb in self._lists:
            self._forget_list(verb)


def _listed(lists: Kept[Hashable, Any], call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a verb that answers the same question with the same list, until the lists are dropped."""

    async def listed(*args: Any, **kwargs: Any) -> Any:
        asked = {name: tuple(given) if isinstance(given, list) else given for name, given in kwargs.items()}
        return await lists.read((args, *asked.items()), lambda: call(*args, **kwargs))

    return listed


_CHANGED: Mapping[Entity, Sequence[str]] = {
    entity: [verb for verb, entities in _LISTS.items() if entity in entities] for entity in Entity
}


def _with_node(view: OperationView, node: Node) -> OperationView:
    nodes = view.nodes
    place = bisect_left(nodes, _AGE(node), key=_AGE)
    there = place < len(nodes) and nodes[place].id == node.id
    bound = (node,) if node.operation_id == view.operation.id else ()
    return replace(view, nodes=(*nodes[:place], *bound, *nodes[place + there :]))


_AGE = attrgetter("created_at", "id")
