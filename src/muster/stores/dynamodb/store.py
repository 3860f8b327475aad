"""The store port over DynamoDB and SQS: each verb is found in the module of its concern.

Owns the delegation, and opening: connect, refuse a table that is not ours, put the parts together.
"""

from collections.abc import Callable, Mapping, Sequence

from muster.domain.boot import Boot, Mark
from muster.domain.deadlines import Watch
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.events import Event
from muster.domain.health import HealthChange, Vitals
from muster.domain.ids import LaunchId, NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node, NodeChange
from muster.domain.operation import Fence, Kind, Operation, OperationChange, Status
from muster.domain.plain import Plain
from muster.domain.reasons import Reason
from muster.domain.template import Template, TemplateSpec
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.store import (
    Beat,
    Cursor,
    Drift,
    Installation,
    OperationView,
    Page,
    Pool,
    Pruned,
    Standing,
    Usage,
)
from muster.stores.announcing import AfterCommit
from muster.stores.claiming import Ask
from muster.stores.dynamodb import boots, counters, schema, templates
from muster.stores.dynamodb.access import DynamoAccess
from muster.stores.dynamodb.admission import Admission
from muster.stores.dynamodb.beats import Beats
from muster.stores.dynamodb.candidates import WAIT_SECONDS, Candidates
from muster.stores.dynamodb.claims import Claims
from muster.stores.dynamodb.clusters import DynamoClusters
from muster.stores.dynamodb.commands import DynamoCommands
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.launches import Launches
from muster.stores.dynamodb.leases import Leases
from muster.stores.dynamodb.nodes import Nodes
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.overview import DynamoOverview
from muster.stores.dynamodb.pruning import Pruner
from muster.stores.dynamodb.table import SETTLE_SECONDS, Table
from muster.stores.dynamodb.vitals import Liveness
from muster.stores.dynamodb.wire import Location, Wire
from muster.stores.dynamodb.writing import Write

BEAT_EVERY = 15.0
"""Seconds between two writes of a node's heartbeats: what they cost is most of what a node costs."""


def _quiet(_written: object) -> None:
    """Nobody listens."""


async def open_dynamodb(
    location: Location,
    *,
    ids: Ids,
    clock: Clock,
    after_commit: AfterCommit = _quiet,
    keep: float | None = None,
) -> "DynamoStore":
    """Open a store that `muster store create` made. Raises StoreUnavailable, saying what is wrong with it.

    `keep`: for how many seconds DynamoDB keeps events; None: until they are pruned."""
    wire = await Wire.open(location)
    try:
        return await assembled(wire, ids=ids, clock=clock, after_commit=after_commit, keep=keep)
    except BaseException:
        await wire.close()
        raise


async def assembled(
    wire: Wire,
    *,
    ids: Ids,
    clock: Clock,
    after_commit: AfterCommit = _quiet,
    keep: float | None = None,
    beat_every: float = BEAT_EVERY,
    wait: int = WAIT_SECONDS,
    settle: float = SETTLE_SECONDS,
) -> "DynamoStore":
    """A store over clients that are open."""
    table = Table(wire, clock=clock, ids=ids, settle=settle)
    shards = await schema.opened(table)
    feed = Feed(table, shards=shards, clock=clock, after_commit=after_commit, keep=keep)
    await feed.heads()
    return DynamoStore(
        table, feed, Candidates(wire, clock=clock, wait=wait), shards=shards, beat_every=beat_every
    )


class DynamoStore:
    """Implements muster.ports.store.Store; see there for what each verb promises."""

    def __init__(
        self, table: Table, feed: Feed, candidates: Candidates, *, shards: int, beat_every: float
    ) -> None:
        self._table = table
        self._feed = feed
        self._liveness = Liveness(table, feed, shards=shards)
        self._beats = Beats(self._liveness, every=beat_every)
        self._nodes = Nodes(table, feed, self._liveness, candidates)
        self._claims = Claims(table, feed, self._liveness, candidates)
        self._admission = Admission(table, feed, self._nodes, self._liveness)
        self._launches = Launches(table, feed, self._nodes)
        self._operations = Operations(table, feed, self._liveness)
        self._leases = Leases(table, feed, self._operations)
        self.commands = DynamoCommands(table, feed, self._nodes)
        self.access = DynamoAccess(table, feed)
        self.overview = DynamoOverview(table, feed, self._nodes, self._operations, self._liveness)
        self.clusters = DynamoClusters(table, feed, self._operations)
        self._pruner = Pruner(table, feed, self._operations, self.commands, self.clusters)

    async def close(self) -> None:
        await self._claims.candidates.sent()
        await self._table.wire.close()

    async def process_home(self, home: str) -> str:
        """For the composition root alone: replicas agree on where process nodes are. The first one's word."""
        return await templates.process_home(self._table, home)

    # --- installation and templates ---------------------------------------------------------------

    async def installation(self) -> Installation:
        return await templates.installation(self._table)

    async def limit_installation(self, max_nodes: int, *, now: float, actor: str = "") -> Installation:
        return await self._table.repeated(
            lambda: templates.limit_installation(self._table, self._feed, max_nodes, now=now, actor=actor)
        )

    async def apply_template(
        self, spec: TemplateSpec, *, now: float, actor: str = "", over: int | None = None
    ) -> Template:
        return await self._table.repeated(
            lambda: templates.apply(self._table, self._feed, spec, now=now, actor=actor, over=over)
        )

    async def template(self, name: str, revision: int | None = None) -> Template:
        return await templates.get(self._table, name, revision)

    async def templates(self) -> Sequence[Template]:
        return await templates.current(self._table)

    # --- nodes ------------------------------------------------------------------------------------

    async def node(self, node_id: NodeId) -> Node:
        return await self._nodes.get(node_id)

    async def node_by_machine(self, provider: str, machine_id: str) -> Node | None:
        return await self._nodes.by_machine(provider, machine_id)

    async def recorded(self, provider: str, machine_ids: Sequence[str]) -> Sequence[str]:
        return await self._nodes.recorded(provider, machine_ids)

    async def nodes(
        self, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
    ) -> Page[Node]:
        return await self._nodes.page(states=states, template=template, after=after, limit=limit)

    async def nodes_due(self, *, now: float, limit: int) -> Sequence[Node]:
        return await self._nodes.due(now=now, limit=limit)

    async def count_nodes(self, *, state: NodeState, template: str | None) -> int:
        return await self._nodes.count(state=state, template=template)

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
        return await self._claims.claim(demand, ask)

    async def count_claimable(self, demand: Demand, *, seen_since: float, now: float) -> int:
        return await self._claims.count(demand, seen_since=seen_since, now=now)

    async def offer(self, idle: Sequence[Node]) -> None:
        await self._claims.candidates.feed(idle)

    async def apply(self, change: NodeChange, *, fence: Fence | None = None) -> Node:
        return await self._nodes.apply(change, fence=fence)

    async def apply_all(self, changes: Sequence[NodeChange], *, fence: Fence | None = None) -> Sequence[Node]:
        return await self._nodes.apply_all(changes, fence=fence)

    async def adopt_stray(self, node: Node, *, now: float) -> Node | None:
        return await self._nodes.adopt_stray(node, now=now)

    # --- joining ----------------------------------------------------------------------------------

    async def admit(
        self, change: NodeChange | None, node_id: NodeId, *, key_hash: str, token_hash: str
    ) -> None:
        await self._table.repeated(
            lambda: self._admission.admit(change, node_id, key_hash=key_hash, token_hash=token_hash)
        )

    async def enrol(
        self,
        node: Node,
        *,
        boot_id: str,
        key_hash: str,
        token_hash: str,
        stale_after: float,
        now: float,
    ) -> Node:
        return await self._table.repeated(
            lambda: self._admission.enrol(
                node,
                boot_id=boot_id,
                key_hash=key_hash,
                token_hash=token_hash,
                stale_after=stale_after,
                now=now,
            )
        )

    async def admitted_key(self, node_id: NodeId) -> str | None:
        return await self._admission.admitted_key(node_id)

    async def node_for_token(self, token_hash: str) -> NodeId | None:
        return await self._admission.node_for_token(token_hash)

    async def standing(self, node_id: NodeId) -> Standing:
        return await self._operations.standing(node_id)

    async def standing_for_token(self, token_hash: str) -> Standing | None:
        node_id = await self._admission.node_for_token(token_hash)
        return None if node_id is None else await self._operations.standing(node_id)

    # --- liveness ---------------------------------------------------------------------------------

    async def record_beats(self, beats: Sequence[Beat]) -> None:
        await self._beats.record(beats)

    async def last_seen(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
        return await self._liveness.last_seen(node_ids)

    async def vitals(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, Vitals]:
        return await self._liveness.get(node_ids)

    async def watch(self, *, now: float, gap: float, grace: float = 0.0) -> Watch:
        return await self._table.repeated(lambda: self._liveness.watch(now=now, gap=gap, grace=grace))

    async def suspects(
        self, *, stale_before: float, settled_before: float, after: NodeId | None, limit: int
    ) -> Sequence[Vitals]:
        return await self._liveness.suspects(
            stale_before=stale_before, settled_before=settled_before, after=after, limit=limit
        )

    async def heard(self, judged: Sequence[Vitals]) -> None:
        await self._liveness.heard(judged)

    async def write_health(self, change: HealthChange) -> Vitals:
        return await self._liveness.write_health(change)

    async def record_probe(self, node_id: NodeId, *, passed: bool, now: float) -> None:
        await self._liveness.record_probe(node_id, passed=passed, now=now)

    async def offline(
        self, *, states: Sequence[NodeState], since_before: float, limit: int
    ) -> Sequence[Node]:
        return await self._nodes.offline(states=states, since_before=since_before, limit=limit)

    async def stalled(self, *, now: float, stall_after: float, limit: int) -> Sequence[Node]:
        return await self._nodes.stalled(now=now, stall_after=stall_after, limit=limit)

    # --- boots and failures -----------------------------------------------------------------------

    async def marks(self, node_id: NodeId) -> Sequence[Mark]:
        return await boots.marks(self._table, node_id)

    async def boots(self, template: str, revision: int) -> Sequence[Boot]:
        return await boots.of_revision(self._table, template, revision)

    async def undiagnosed(self, *, limit: int) -> Sequence[Node]:
        return await self._nodes.undiagnosed(limit=limit)

    async def file_bundle(self, bundle: Bundle, *, cause: Cause) -> bool:
        return await boots.file_bundle(self._table, self._feed, bundle, cause=cause)

    async def bundle(self, node_id: NodeId) -> Bundle | None:
        return await boots.bundle(self._table, node_id)

    # --- launches ---------------------------------------------------------------------------------

    async def reserve(self, launch: Launch, *, cap: int, total_cap: int, fence: Fence) -> Launch:
        return await self._table.repeated(
            lambda: self._launches.reserve(launch, cap=cap, total_cap=total_cap, fence=fence)
        )

    async def write_launch(self, before: Launch, after: Launch, *, fence: Fence | None) -> Launch:
        return await self._launches.write(before, after, fence=fence)

    async def settle(
        self, before: Launch, after: Launch, nodes: Sequence[Node], *, fence: Fence | None, now: float
    ) -> Launch:
        return await self._table.repeated(
            lambda: self._launches.settle(before, after, nodes, fence=fence, now=now)
        )

    async def launch(self, launch_id: LaunchId) -> Launch:
        return await self._launches.get(launch_id)

    async def launch_by_token(self, token: str) -> Launch | None:
        return await self._launches.by_token(token)

    async def forsaken_launches(self, *, limit: int, after: Launch | None = None) -> Sequence[Launch]:
        return await self._launches.forsaken(limit=limit, after=after)

    # --- operations -------------------------------------------------------------------------------

    async def submit(
        self, operation: Operation, *, pool: Pool | None = None, fence: Fence | None = None
    ) -> tuple[Operation, bool]:
        return await self._table.repeated(lambda: self._operations.submit(operation, pool=pool, fence=fence))

    async def operation(self, operation_id: OperationId) -> Operation:
        return await self._operations.get(operation_id)

    async def operation_by_key(self, key: str) -> Operation | None:
        return await self._operations.by_key(key)

    async def view(self, operation_id: OperationId) -> OperationView:
        return await self._operations.view(operation_id)

    async def operations(
        self,
        *,
        kind: Kind | None,
        statuses: Sequence[Status],
        run: str | None,
        after: Cursor | None,
        limit: int,
    ) -> Page[Operation]:
        return await self._operations.page(kind=kind, statuses=statuses, run=run, after=after, limit=limit)

    async def lease(self, owner: str, *, now: float, until: float, limit: int) -> Sequence[Operation]:
        return await self._leases.lease(owner, now=now, until=until, limit=limit)

    async def renew(self, owner: str, fences: Sequence[Fence], *, until: float) -> Sequence[Fence]:
        return await self._leases.renew(owner, fences, until=until)

    async def expire_leases(self, owner: str | None = None) -> int:
        return await self._leases.expire(owner)

    async def write_operation(
        self,
        change: OperationChange,
        *,
        fence: Fence | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Operation:
        return await self._operations.write(change, fence=fence, clock=clock)

    # --- pools and caps ---------------------------------------------------------------------------

    async def pool(self, template: str) -> Pool:
        return await self._operations.pool(template)

    async def usage(self, template: str) -> Usage:
        return await counters.usage(self._table, template)

    async def audit(self, *, now: float) -> Sequence[Drift]:
        return await counters.audit(self._table, self._feed, now=now)

    # --- duties -----------------------------------------------------------------------------------

    async def lease_duty(self, name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        return await self._leases.lease_duty(name, owner, now=now, until=until, problem=problem)

    # --- events -----------------------------------------------------------------------------------

    async def note(
        self, entity_id: str, name: str, *, reason: Reason | None, detail: str, now: float
    ) -> None:
        changes: dict[str, Plain] = {} if reason is None else {"reason": reason.value}
        write = Write()
        write.tell(templates.announcement(entity_id, name, changes, detail=detail), at=now)
        await self._feed.commit(write)

    async def events(self, *, after: Cursor | None, limit: int, entity_id: str | None = None) -> Page[Event]:
        return await self._feed.page(after=after, limit=limit, entity_id=entity_id)

    async def last_events(self, *, limit: int, entity_id: str | None = None) -> Page[Event]:
        return await self._feed.tail(limit=limit, entity_id=entity_id)

    async def prune(self, *, before: float, limit: int) -> Pruned:
        return await self._pruner.prune(before=before, limit=limit)
