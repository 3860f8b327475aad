"""The store port in SQL: which transaction function each verb is.

Owns the table of verbs. What a verb does is in the module of its concern; what it promises is in the port.
"""

from collections.abc import Sequence

from muster.domain.events import Event
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node
from muster.domain.operation import Fence
from muster.ports.store import Cursor, Page
from muster.ports.verbs import reads, writes
from muster.stores.claim_batcher import Ask, ClaimBatcher, End
from muster.stores.sql import admission, claims, counters, launches, leases, liveness, pruner
from muster.stores.sql import boots as boot_rows
from muster.stores.sql import events as event_log
from muster.stores.sql import nodes as node_rows
from muster.stores.sql import operations as operation_rows
from muster.stores.sql import templates as template_rows
from muster.stores.sql import vitals as vital_rows
from muster.stores.sql.access import SqlAccess
from muster.stores.sql.clusters import SqlClusters
from muster.stores.sql.commands import SqlCommands
from muster.stores.sql.engines import Engine, EngineVerbs, read, write
from muster.stores.sql.jobs import SqlJobs
from muster.stores.sql.messages import SqlMessages
from muster.stores.sql.overview import SqlOverview, keep_sample


class SqlStore(EngineVerbs):
    """Implements muster.ports.store.Store."""

    def __init__(self, engine: Engine, *, groups: int = 0) -> None:
        """Set the engine. `groups`: batches of claims of a demand that run side by side; 0: no batches."""
        super().__init__(engine)
        self._batcher = (
            ClaimBatcher(self._claim_together, groups=groups, most=claims.AT_ONCE) if groups else None
        )
        self.commands = SqlCommands(engine)
        self.access = SqlAccess(engine)
        self.overview = SqlOverview(engine)
        self.clusters = SqlClusters(engine)
        self.jobs = SqlJobs(engine)
        self.messages = SqlMessages(engine)

    async def close(self) -> None:
        await self._engine.close()

    process_home = write(template_rows.process_home)
    """For the composition root alone: replicas agree on where process nodes are. The first one's word."""

    installation = read(template_rows.installation, point=True)
    limit_installation = write(template_rows.limit_installation)
    apply_template = write(template_rows.apply)
    template = read(template_rows.get, point=True)
    templates = read(template_rows.current)

    node = read(node_rows.get, point=True)
    node_by_machine = read(node_rows.by_machine)
    nodes = read(node_rows.page)
    recorded = read(node_rows.recorded)
    nodes_due = read(node_rows.due)
    count_nodes = read(node_rows.count)
    count_claimable = read(claims.count)
    apply = write(node_rows.apply)
    apply_all = write(node_rows.apply_all)
    adopt_stray = write(node_rows.adopt_stray)

    @writes
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
        if self._batcher is not None:
            return await self._batcher.claim(demand, ask)
        return await self._engine.write(lambda tx: claims.claim(tx, demand, ask))

    async def _claim_together(self, demand: Demand, asks: Sequence[Ask]) -> Sequence[End]:
        return await self._engine.write(lambda tx: claims.claim_together(tx, demand, asks))

    @reads
    async def offer(self, idle: Sequence[Node]) -> None:
        """Do nothing: claims read the nodes themselves."""

    admit = write(admission.admit)
    enrol = write(admission.enrol)
    admitted_key = read(admission.admitted_key, point=True)
    node_for_token = read(admission.node_for_token, point=True)
    node_view = read(operation_rows.node_view, point=True)
    node_view_for_token = read(operation_rows.node_view_for_token, point=True)

    record_beats = write(liveness.record, urgent=True)
    last_seen = read(liveness.last_seen, point=True)
    vitals = read(vital_rows.get)
    watch = write(vital_rows.watch, urgent=True)
    suspects = read(vital_rows.suspects)
    mark_news_judged = write(vital_rows.mark_news_judged)
    write_health = write(vital_rows.write_health)
    record_probe = write(vital_rows.record_probe)
    offline = read(vital_rows.offline)
    stalled = read(vital_rows.stalled)

    marks = read(boot_rows.marks)
    boots = read(boot_rows.of_revision)
    undiagnosed = read(boot_rows.undiagnosed)
    file_bundle = write(boot_rows.file_bundle)
    bundle = read(boot_rows.bundle)

    reserve = write(launches.reserve)
    write_launch = write(launches.write)
    settle = write(launches.settle)
    launch = read(launches.get)
    launch_by_token = read(launches.by_token)
    launches_to_close = read(launches.to_close)

    submit = write(operation_rows.submit)
    operation = read(operation_rows.get, point=True)
    operation_by_key = read(operation_rows.by_key, point=True)
    view = read(operation_rows.view, point=True)
    holdings = read(operation_rows.holdings)
    operations = read(operation_rows.page)
    write_operation = write(operation_rows.write)
    complete = write(operation_rows.complete)

    lease = write(leases.lease, urgent=True)
    seize = write(leases.seize, urgent=True)
    renew = write(leases.renew, urgent=True)
    expire_leases = write(leases.expire, urgent=True)
    lease_duty = write(leases.lease_duty, urgent=True)
    lease_duties = write(leases.lease_duties, urgent=True)
    bookmark = read(leases.bookmark, point=True)
    move_bookmark = write(leases.move_bookmark)

    pool = read(operation_rows.pool)
    usage = read(counters.usage)
    audit = write(counters.audit)
    keep_sample = write(keep_sample)
    prune = write(pruner.prune)
    note = write(event_log.note)

    @reads
    async def events(self, *, after: Cursor | None, limit: int, entity_id: str | None = None) -> Page[Event]:
        upto = await self._engine.complete_upto()
        return await self._engine.read(
            lambda tx: event_log.feed(tx, after=after, limit=limit, entity_id=entity_id, upto=upto),
            point=entity_id is not None,
        )

    @reads
    async def last_events(self, *, limit: int, entity_id: str | None = None) -> Page[Event]:
        upto = await self._engine.complete_upto()
        return await self._engine.read(
            lambda tx: event_log.tail(tx, limit=limit, entity_id=entity_id, upto=upto)
        )
