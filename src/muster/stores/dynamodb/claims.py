"""Claim nodes: pick up candidates, filter them by the table, requeue or drop the rest, claim.

This module owns `matching.fits` for DynamoDB. The queue of the class is asked first, then the pool's index.
The queue serves all templates of the class, so claims leave it after some fruitless looks. A gang is claimed
in transactions of some nodes each. A node that another claimer took meanwhile costs a second look, never an
error.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from muster.domain import matching
from muster.domain.errors import LeaseLost, Paused
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.operation import Fence
from muster.stores.claim_batcher import Ask, ClaimBatcher, End
from muster.stores.dynamodb import guards, keys, nodes
from muster.stores.dynamodb.candidates import Candidates
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.table import Table
from muster.stores.dynamodb.values import Key, number, restored, whole
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.writes import Write
from muster.stores.records import claimed, lease_lost_error, of_claim

AT_ONCE = 20
"""Nodes per transaction: three items each, beside up to as many fences and the heads."""
GROUPS = 2
"""Groups of claims of one demand: one looks for candidates while another writes."""
CHOICE = 5
"""Picked up at least, so that there is something to choose from."""
IN_VAIN = 2
"""Looks at the queue, one after the other, that brought nothing, before the index is asked."""
LOOKED_AT_ONCE = 48
"""One read: two items each, the template and its pauses."""
LOOKED_AT = 1000
"""Idle nodes of a pool that one claim looks at, at most."""


class Taken(Exception):
    """Another claimer took a node that was about to be claimed."""


class LeaseTaken(Exception):
    """The lease of one of the operations was taken over."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        super().__init__(fence.operation_id)


class Claims:
    def __init__(self, table: Table, feed: Feed, liveness: Liveness, candidates: Candidates) -> None:
        self._table = table
        self._feed = feed
        self._liveness = liveness
        self.candidates = candidates
        self._batcher = ClaimBatcher(self.serve, groups=GROUPS, most=AT_ONCE)

    async def claim(
        self,
        demand: Demand,
        bindings: Sequence[Binding],
        *,
        fence: Fence,
        seen_since: float,
        now: float,
        deadline_at: float,
    ) -> Sequence[Node]:
        ask = Ask(bindings=bindings, fence=fence, seen_since=seen_since, now=now, deadline_at=deadline_at)
        return await self._batcher.claim(demand, ask)

    async def serve(self, demand: Demand, asks: Sequence[Ask]) -> Sequence[End]:
        # An empty pool is no reason to wait for its queue.
        wanted = [ask for ask in asks if ask.bindings]
        group = _Group(self, demand, wanted)
        try:
            if wanted and await self.idle(demand.template, 1):
                await group.from_queue()
                if group.wanted:
                    await group.from_index()
        except Paused as paused:
            # Those that have nodes by then asked before the pause.
            return [group.end(ask) or paused for ask in asks]
        return [group.end(ask) for ask in asks]

    async def count(self, demand: Demand, *, seen_since: float, now: float) -> int:
        ids = await self.idle(demand.template, LOOKED_AT)
        looked = await self.look(ids, demand)
        return sum(each.fits(demand, seen_since=seen_since, now=now) for each in looked)

    async def look(
        self, ids: Sequence[NodeId], demand: Demand, *, pauses: Sequence[Key] = ()
    ) -> list["_Looked"]:
        """Read the nodes as they are now, with what a claim needs: one read for up to 48 of them.

        Raises Paused if one of the pauses is there.
        """
        head = keys.template(demand.template)
        wanted = [key for node_id in ids for key in (keys.node(node_id), self._liveness.key(node_id))]
        found = await self._table.get_many([head, *pauses, *wanted])
        if any(pause in found for pause in pauses):
            raise Paused(demand.template)
        current = whole(found.get(head, {}), "revision")
        return [
            _Looked(
                node=restored(Node, found[keys.node(node_id)]),
                seen_at=number(found.get(self._liveness.key(node_id), {}), "seen_at"),
                old=current > demand.revision,
            )
            for node_id in ids
            if keys.node(node_id) in found
        ]

    async def idle(self, template: str, most: int) -> list[NodeId]:
        partition = nodes.partition(NodeState.IDLE, template)
        found = await self._table.query(partition, index="scoped", most=most)
        return [NodeId(str(item["PK"]).partition("#")[2]) for item in found]

    async def take(self, some: Sequence["_Bound"], *, now: float) -> None:
        """Claim all of them in one transaction. Raises Taken or LeaseTaken; then nothing is written."""
        write = Write()
        for fence in dict.fromkeys(each.ask.fence for each in some):
            guards.check_epoch(write, fence, LeaseTaken(fence))
        for each in some:
            node = each.node
            write.put(
                keys.node(node.id),
                nodes.item(node),
                where="#v = :expected",
                values={"expected": node.version - 1},
                refused=lambda _item: Taken(),
            )
            write.put(keys.held(each.ask.fence.operation_id, node.id), {})
            operation_id = each.ask.fence.operation_id
            write.tell(of_claim(node), at=now, operations=(operation_id,), by=operation_id, record=node)
        await self._feed.commit(write)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    node: Node
    seen_at: float | None
    old: bool
    """The demand is for a revision that is no longer current."""

    def fits(self, demand: Demand, *, seen_since: float, now: float) -> bool:
        return not self.old and matching.fits(
            self.node, demand, seen_at=self.seen_at, seen_since=seen_since, now=now
        )


@dataclass(frozen=True, slots=True)
class _Bound:
    """A node as it is to be, and who gets it."""

    node: Node
    ask: Ask


class _Group:
    """Some claims of one demand on their way. All of them asked before the latest `now`."""

    def __init__(self, claims: Claims, demand: Demand, asks: Sequence[Ask]) -> None:
        self._claims = claims
        self._demand = demand
        self._places = deque((ask, binding) for ask in asks for binding in ask.bindings)
        self._seen_since = max((ask.seen_since for ask in asks), default=0.0)
        self._now = max((ask.now for ask in asks), default=0.0)
        self._met: dict[NodeId, None] = {}
        self._taken: list[_Bound] = []
        self._lost: dict[Fence, LeaseLost] = {}

    @property
    def wanted(self) -> int:
        return len(self._places)

    def end(self, ask: Ask) -> End:
        lost = self._lost.get(ask.fence)
        return lost or [each.node for each in self._taken if each.ask is ask]

    async def from_queue(self) -> None:
        queue, name = self._claims.candidates, self._demand.resource_class
        in_vain = 0
        while self.wanted and in_vain < IN_VAIN:
            hints = await queue.pick_up(name, max(self.wanted, CHOICE))
            news = {each.node_id: each for each in hints if each.node_id and each.node_id not in self._met}
            looked = await self._look(tuple(news)) if news else []
            got = await self._take(self._fitting(looked))
            in_vain = 0 if got else in_vain + 1
            idle = [news[each.node.id] for each in looked if each.node.state is NodeState.IDLE]
            wanted_by_others = [hint for hint in idle if hint.node_id not in got]
            again = wanted_by_others + [hint for hint in hints if hint.node_id in self._met]
            self._met.update(dict.fromkeys(news))
            # What is no idle node of ours any more, or is there twice, is dropped.
            await queue.put_back(name, hints, again)
            if not news:
                return

    async def from_index(self) -> None:
        """Find nodes by the index. Claimers start at different places and read a part of the pool at a
        time."""
        idle = await self._claims.idle(self._demand.template, LOOKED_AT)
        ids = [each for each in idle if each not in self._met]
        start = crc32(self._places[0][0].fence.operation_id.encode()) % len(ids) if ids else 0
        ids = ids[start:] + ids[:start]
        while ids and self.wanted:
            part, ids = ids[:LOOKED_AT_ONCE], ids[LOOKED_AT_ONCE:]
            looked = await self._look(part)
            await self._take(self._fitting(looked))

    async def _look(self, ids: Sequence[NodeId]) -> list[_Looked]:
        return await self._claims.look(ids, self._demand, pauses=keys.pauses(self._demand.template))

    def _fitting(self, looked: Sequence[_Looked]) -> list[Node]:
        """Return the fitting nodes, best first: the owner's own, then those idle for the shortest time."""
        fits = [
            each.node
            for each in looked
            if each.fits(self._demand, seen_since=self._seen_since, now=self._now)
        ]
        owner = self._demand.owner
        return sorted(fits, key=lambda node: (node.last_owner != owner, -node.entered_at, node.id))

    async def _take(self, some: Sequence[Node]) -> dict[NodeId, None]:
        """Claim as many of these as are wanted."""
        got: dict[NodeId, None] = {}
        left = list(some)
        while left and self.wanted:
            best = left[: min(self.wanted, AT_ONCE)]
            bound = [
                _Bound(claimed(node, place[1], now=self._now, deadline_at=place[0].deadline_at), place[0])
                for node, place in zip(best, self._places, strict=False)
            ]
            try:
                await self._claims.take(bound, now=self._now)
            except LeaseTaken as unled:
                self._forget(unled.fence)
                continue
            except Taken:
                looked = await self._look([node.id for node in left])
                left = self._fitting(looked)
                continue
            for each in bound:
                self._places.popleft()
                self._taken.append(each)
                got[each.node.id] = None
            left = left[len(best) :]
        return got

    def _forget(self, fence: Fence) -> None:
        """Leave out an operation whose lease was taken over; the others continue."""
        self._lost[fence] = lease_lost_error(fence)
        self._places = deque((ask, binding) for ask, binding in self._places if ask.fence != fence)
