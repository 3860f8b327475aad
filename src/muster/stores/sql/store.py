"""The store port over an engine: each verb is one transaction function.

Owns the delegation, so that a verb's meaning is found in one place, the module of its concern; and opening:
connect, bring the schema up to date, name a new installation, choose the executor.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from muster.domain.boot import Boot, Mark
from muster.domain.deadlines import Watch
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.errors import InvalidRequest
from muster.domain.events import Event
from muster.domain.health import HealthChange, Vitals
from muster.domain.ids import InstallationId, LaunchId, NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node, NodeChange
from muster.domain.operation import Fence, Kind, Operation, OperationChange, Status
from muster.domain.reasons import Reason
from muster.domain.template import Template, TemplateSpec
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
from muster.stores.claiming import Ask, End, Together
from muster.stores.sql import (
    admission,
    boots,
    claims,
    counters,
    events,
    launches,
    leases,
    liveness,
    nodes,
    operations,
    pools,
    pruning,
    schema,
    sqlite,
    templates,
    vitals,
)
from muster.stores.sql.access import SqlAccess
from muster.stores.sql.clusters import SqlClusters
from muster.stores.sql.commands import SqlCommands
from muster.stores.sql.engines import Engine, Inline, Threaded
from muster.stores.sql.overview import SqlOverview
from muster.stores.sql.running import T, Work


def _quiet(_written: object) -> None:
    """Nobody listens."""


def open_sqlite(
    path: str | Path, *, ids: Ids, inline: bool = False, after_commit: AfterCommit = _quiet
) -> "SqlStore":
    """Open (or make) a store in a file. Raises StoreUnavailable, saying what is wrong with it."""
    if not inline and str(path) == ":memory:":
        raise InvalidRequest("path", path, "must be a file: the reader's connection would see another memory")
    writer = _opened(path, ids)
    if inline:
        return SqlStore(Inline(writer, writer.reader(), after_commit))
    writer.reserve(path)
    try:
        reader = sqlite.Reader(sqlite.connect(path, readonly=True))
    except BaseException as error:
        writer.close()
        raise sqlite.translated(error) from error
    return SqlStore(Threaded([writer], [reader], after_commit))


def _opened(path: str | Path, ids: Ids) -> sqlite.Writer:
    try:
        writer = sqlite.Writer(sqlite.connect(path))
    except Exception as error:
        raise sqlite.translated(error) from error
    try:
        while _now(writer, schema.advance):
            pass
        _now(writer, lambda tx: templates.found(tx, InstallationId(ids.new("inst"))))
    except BaseException:
        writer.close()
        raise
    return writer


def _now(writer: sqlite.Writer, work: Work[T]) -> T:
    (end,), _ = writer.run((work,))
    if end.error is not None:
        raise end.error
    return end.value  # type: ignore[no-any-return]  # the type of the work that was run


class SqlStore:
    """Implements muster.ports.store.Store; see there for what each verb promises."""

    def __init__(self, engine: Engine, *, groups: int = 0) -> None:
        """`groups`: how many groups of claims of a demand go side by side; 0: each claim goes by itself."""
        self._engine = engine
        self._together = (
            Together(self._claim_together, groups=groups, most=claims.AT_ONCE) if groups else None
        )
        self.commands = SqlCommands(engine)
        self.access = SqlAccess(engine)
        self.overview = SqlOverview(engine)
        self.clusters = SqlClusters(engine)

    async def close(self) -> None:
        await self._engine.close()

    # --- installation and templates ---------------------------------------------------------------

    async def installation(self) -> Installation:
        return await self._engine.read(templates.installation)

    async def process_home(self, home: str) -> str:
        """For the composition root alone: replicas agree on where process nodes are. The first one's word."""
        return await self._engine.write(lambda tx: templates.process_home(tx, home))

    async def limit_installation(self, max_nodes: int, *, now: float, actor: str = "") -> Installation:
        return await self._engine.write(
            lambda tx: templates.limit_installation(tx, max_nodes, now=now, actor=actor)
        )

    async def apply_template(
        self, spec: TemplateSpec, *, now: float, actor: str = "", over: int | None = None
    ) -> Template:
        return await self._engine.write(lambda tx: templates.apply(tx, spec, now=now, actor=actor, over=over))

    async def template(self, name: str, revision: int | None = None) -> Template:
        return await self._engine.read(lambda tx: templates.get(tx, name, revision))

    async def templates(self) -> Sequence[Template]:
        return await self._engine.read(templates.current)

    # --- nodes ------------------------------------------------------------------------------------

    async def node(self, node_id: NodeId) -> Node:
        return await self._engine.read(lambda tx: nodes.get(tx, node_id))

    async def node_by_machine(self, provider: str, machine_id: str) -> Node | None:
        return await self._engine.read(lambda tx: nodes.by_machine(tx, provider, machine_id))

    async def recorded(self, provider: str, machine_ids: Sequence[str]) -> Sequence[str]:
        return await self._engine.read(lambda tx: nodes.recorded(tx, provider, machine_ids))

    async def nodes(
        self, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
    ) -> Page[Node]:
        return await self._engine.read(
            lambda tx: nodes.page(tx, states=states, template=template, after=after, limit=limit)
        )

    async def nodes_due(self, *, now: float, limit: int) -> Sequence[Node]:
        return await self._engine.read(lambda tx: nodes.due(tx, now=now, limit=limit))

    async def count_nodes(self, *, state: NodeState, template: str | None) -> int:
        return await self._engine.read(lambda tx: nodes.count(tx, state=state, template=template))

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
        if self._together is not None:
            return await self._together.claim(demand, ask)
        return await self._engine.write(lambda tx: claims.claim(tx, demand, ask))

    async def _claim_together(self, demand: Demand, asks: Sequence[Ask]) -> Sequence[End]:
        return await self._engine.write(lambda tx: claims.claim_together(tx, demand, asks))

    async def count_claimable(self, demand: Demand, *, seen_since: float, now: float) -> int:
        return await self._engine.read(lambda tx: claims.count(tx, demand, seen_since=seen_since, now=now))

    async def offer(self, idle: Sequence[Node]) -> None:
        """Claims look at the nodes themselves."""

    async def apply(self, change: NodeChange, *, fence: Fence | None = None) -> Node:
        return await self._engine.write(lambda tx: nodes.apply(tx, change, fence=fence))

    async def apply_all(self, changes: Sequence[NodeChange], *, fence: Fence | None = None) -> Sequence[Node]:
        return await self._engine.write(lambda tx: nodes.apply_all(tx, changes, fence=fence))

    async def adopt_stray(self, node: Node, *, now: float) -> Node | None:
        return await self._engine.write(lambda tx: nodes.adopt_stray(tx, node, now=now))

    # --- joining ----------------------------------------------------------------------------------

    async def admit(
        self, change: NodeChange | None, node_id: NodeId, *, key_hash: str, token_hash: str
    ) -> None:
        await self._engine.write(
            lambda tx: admission.admit(tx, change, node_id, key_hash=key_hash, token_hash=token_hash)
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
        return await self._engine.write(
            lambda tx: admission.enrol(
                tx,
                node,
                boot_id=boot_id,
                key_hash=key_hash,
                token_hash=token_hash,
                stale_after=stale_after,
                now=now,
            )
        )

    async def admitted_key(self, node_id: NodeId) -> str | None:
        return await self._engine.read(lambda tx: admission.admitted_key(tx, node_id))

    async def node_for_token(self, token_hash: str) -> NodeId | None:
        return await self._engine.read(lambda tx: admission.node_for_token(tx, token_hash))

    async def standing(self, node_id: NodeId) -> Standing:
        return await self._engine.read(lambda tx: operations.standing(tx, node_id))

    async def standing_for_token(self, token_hash: str) -> Standing | None:
        return await self._engine.read(lambda tx: operations.standing_for_token(tx, token_hash))

    # --- liveness ---------------------------------------------------------------------------------

    async def record_beats(self, beats: Sequence[Beat]) -> None:
        await self._engine.write(lambda tx: liveness.record(tx, beats), urgent=True)

    async def last_seen(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]:
        return await self._engine.read(lambda tx: liveness.last_seen(tx, node_ids))

    async def vitals(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, Vitals]:
        return await self._engine.read(lambda tx: vitals.get(tx, node_ids))

    async def watch(self, *, now: float, gap: float, grace: float = 0.0) -> Watch:
        return await self._engine.write(
            lambda tx: vitals.watch(tx, now=now, gap=gap, grace=grace), urgent=True
        )

    async def suspects(
        self, *, stale_before: float, settled_before: float, after: NodeId | None, limit: int
    ) -> Sequence[Vitals]:
        return await self._engine.read(
            lambda tx: vitals.suspects(
                tx, stale_before=stale_before, settled_before=settled_before, after=after, limit=limit
            )
        )

    async def heard(self, judged: Sequence[Vitals]) -> None:
        await self._engine.write(lambda tx: vitals.heard(tx, judged))

    async def write_health(self, change: HealthChange) -> Vitals:
        return await self._engine.write(lambda tx: vitals.write_health(tx, change))

    async def record_probe(self, node_id: NodeId, *, passed: bool, now: float) -> None:
        await self._engine.write(lambda tx: vitals.record_probe(tx, node_id, passed=passed, now=now))

    async def offline(
        self, *, states: Sequence[NodeState], since_before: float, limit: int
    ) -> Sequence[Node]:
        return await self._engine.read(
            lambda tx: vitals.offline(tx, states=states, since_before=since_before, limit=limit)
        )

    async def stalled(self, *, now: float, stall_after: float, limit: int) -> Sequence[Node]:
        return await self._engine.read(
            lambda tx: vitals.stalled(tx, now=now, stall_after=stall_after, limit=limit)
        )

    # --- boots and failures -----------------------------------------------------------------------

    async def marks(self, node_id: NodeId) -> Sequence[Mark]:
        return await self._engine.read(lambda tx: boots.marks(tx, node_id))

    async def boots(self, template: str, revision: int) -> Sequence[Boot]:
        return await self._engine.read(lambda tx: boots.of_revision(tx, template, revision))

    async def undiagnosed(self, *, limit: int) -> Sequence[Node]:
        return await self._engine.read(lambda tx: boots.undiagnosed(tx, limit=limit))

    async def file_bundle(self, bundle: Bundle, *, cause: Cause) -> bool:
        return await self._engine.write(lambda tx: boots.file_bundle(tx, bundle, cause=cause))

    async def bundle(self, node_id: NodeId) -> Bundle | None:
        return await self._engine.read(lambda tx: boots.bundle(tx, node_id))

    # --- launches ---------------------------------------------------------------------------------

    async def reserve(self, launch: Launch, *, cap: int, total_cap: int, fence: Fence) -> Launch:
        return await self._engine.write(
            lambda tx: launches.reserve(tx, launch, cap=cap, total_cap=total_cap, fence=fence)
        )

    async def write_launch(self, before: Launch, after: Launch, *, fence: Fence | None) -> Launch:
        return await self._engine.write(lambda tx: launches.write(tx, before, after, fence=fence))

    async def settle(
        self, before: Launch, after: Launch, nodes: Sequence[Node], *, fence: Fence | None, now: float
    ) -> Launch:
        return await self._engine.write(
            lambda tx: launches.settle(tx, before, after, nodes, fence=fence, now=now)
        )

    async def launch(self, launch_id: LaunchId) -> Launch:
        return await self._engine.read(lambda tx: launches.get(tx, launch_id))

    async def launch_by_token(self, token: str) -> Launch | None:
        return await self._engine.read(lambda tx: launches.by_token(tx, token))

    async def forsaken_launches(self, *, limit: int, after: Launch | None = None) -> Sequence[Launch]:
        return await self._engine.read(lambda tx: launches.forsaken(tx, limit=limit, after=after))

    # --- operations -------------------------------------------------------------------------------

    async def submit(
        self, operation: Operation, *, pool: Pool | None = None, fence: Fence | None = None
    ) -> tuple[Operation, bool]:
        return await self._engine.write(lambda tx: operations.submit(tx, operation, pool=pool, fence=fence))

    async def operation(self, operation_id: OperationId) -> Operation:
        return await self._engine.read(lambda tx: operations.get(tx, operation_id))

    async def operation_by_key(self, key: str) -> Operation | None:
        return await self._engine.read(lambda tx: operations.by_key(tx, key))

    async def view(self, operation_id: OperationId) -> OperationView:
        return await self._engine.read(lambda tx: operations.view(tx, operation_id))

    async def operations(
        self,
        *,
        kind: Kind | None,
        statuses: Sequence[Status],
        run: str | None,
        after: Cursor | None,
        limit: int,
    ) -> Page[Operation]:
        return await self._engine.read(
            lambda tx: operations.page(tx, kind=kind, statuses=statuses, run=run, after=after, limit=limit)
        )

    async def lease(self, owner: str, *, now: float, until: float, limit: int) -> Sequence[Operation]:
        return await self._engine.write(
            lambda tx: leases.lease(tx, owner, now=now, until=until, limit=limit), urgent=True
        )

    async def renew(self, owner: str, fences: Sequence[Fence], *, until: float) -> Sequence[Fence]:
        return await self._engine.write(lambda tx: leases.renew(tx, owner, fences, until=until), urgent=True)

    async def expire_leases(self, owner: str | None = None) -> int:
        return await self._engine.write(lambda tx: leases.expire(tx, owner), urgent=True)

    async def write_operation(
        self,
        change: OperationChange,
        *,
        fence: Fence | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Operation:
        return await self._engine.write(lambda tx: operations.write(tx, change, fence=fence, clock=clock))

    # --- pools and caps ---------------------------------------------------------------------------

    async def pool(self, template: str) -> Pool:
        return await self._engine.read(lambda tx: pools.get(tx, template))

    async def usage(self, template: str) -> Usage:
        return await self._engine.read(lambda tx: counters.usage(tx, template))

    async def audit(self, *, now: float) -> Sequence[Drift]:
        return await self._engine.write(lambda tx: counters.audit(tx, now=now))

    # --- duties -----------------------------------------------------------------------------------

    async def lease_duty(self, name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        return await self._engine.write(
            lambda tx: leases.lease_duty(tx, name, owner, now=now, until=until, problem=problem), urgent=True
        )

    # --- events -----------------------------------------------------------------------------------

    async def note(
        self, entity_id: str, name: str, *, reason: Reason | None, detail: str, now: float
    ) -> None:
        await self._engine.write(
            lambda tx: events.note(tx, entity_id, name, reason=reason, detail=detail, now=now)
        )

    async def events(self, *, after: Cursor | None, limit: int, entity_id: str | None = None) -> Page[Event]:
        upto = await self._engine.complete_upto()
        return await self._engine.read(
            lambda tx: events.feed(tx, after=after, limit=limit, entity_id=entity_id, upto=upto)
        )

    async def last_events(self, *, limit: int, entity_id: str | None = None) -> Page[Event]:
        upto = await self._engine.complete_upto()
        return await self._engine.read(
            lambda tx: events.tail(tx, limit=limit, entity_id=entity_id, upto=upto)
        )

    async def prune(self, *, before: float, limit: int) -> Pruned:
        return await self._engine.write(lambda tx: pruning.prune(tx, before=before, limit=limit))
