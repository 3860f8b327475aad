"""The contract of the overview port as code: every adapter runs it unchanged.

An adapter's test module subclasses `OverviewContract` and gives it three fixtures: `store` (an empty one),
`access` and `overview` (the ports over it).
"""

from dataclasses import replace

from muster.domain import node as lifecycle
from muster.domain import operation as operations
from muster.domain.access import ApiToken, Role
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.failures import Failed
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status, Verdict
from muster.domain.pool_history import PoolCount, PoolSample
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.run_decisions import provision_key
from muster.domain.template import TemplateSpec
from muster.ports.access import AccessStore
from muster.ports.overview import OverviewStore, Tick
from muster.ports.store import Beat, DutyLease, Store
from tests.contracts.store_contract.records import Records

SPEC = TemplateSpec(name="web", provider="simulated", resource_class="large")
STEP = Progress(step=4, total_steps=5, phase="handing_over", label="Handing over")


async def failed(
    records: Records, *, at: float, reason: Reason = Reason.BOOT_TIMEOUT, operation: Operation | None = None
) -> Node:
    (node,) = await records.created(operation or await records.leased(), 1)
    change = lifecycle.fail(node, now=at, reason=reason, deadline_at=at + 60.0, detail="it took too long")
    return await records.store.apply(change)


async def ended(
    records: Records, operation: Operation, *, at: float, node: Node | None = None, key: str | None = None
) -> Operation:
    verdict = Verdict(reason=Reason.BOOT_TIMEOUT, message="no\nway", node_id=node.id if node else None)
    change = operations.ended(operation, Status.FAILED, now=at, progress=None, verdict=verdict)
    return await records.store.write_operation(change, fence=operation.fence)


async def committed(records: Records, *, asked: float, at: float, warm: int) -> Operation:
    operation = await records.leased(now=asked)
    change = operations.committed(operation, (), STEP, now=at, fresh_for=20.0, warm=warm)
    return await records.store.write_operation(change, fence=operation.fence, clock=lambda: at)


class OverviewContract:
    # --- counts -----------------------------------------------------------------------------------

    async def test_a_census_counts_every_template_in_every_state(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        assert dict(await overview.census()) == {}
        await store.apply_template(SPEC, now=1.0)
        await store.apply_template(replace(SPEC, boot_script="true"), now=1.0)
        await store.apply_template(replace(SPEC, name="ci"), now=1.0)
        await records.idle(2)
        await failed(records, at=10.0)
        found = await overview.census()
        present = [state for state in NodeState if state is not NodeState.TERMINATED]
        assert list(found) == ["ci", "web"]
        assert found["ci"] == dict.fromkeys(present, 0)
        assert found["web"] == {**found["ci"], NodeState.IDLE: 2, NodeState.FAILED: 1}

    async def test_health_is_counted_of_those_who_stay(self, store: Store, overview: OverviewStore) -> None:
        records = Records(store)
        await store.apply_template(SPEC, now=1.0)
        assert dict(await overview.health()) == {}, "no node joined"
        first, second, third = await records.idle(3)
        (fresh,) = await records.created(await records.leased(), 1)
        await store.apply(lifecycle.joined(fresh, boot_id="boot-1", now=5.0))
        await store.record_beats([Beat(node_id=first.id, seen_at=101.0, said=Health.DEGRADED)])
        await store.apply(lifecycle.condemn(third, now=102.0, reason=Reason.OPERATOR))
        found = await overview.health()
        assert list(found) == [first.template]
        counted = found[first.template]
        assert list(counted) == list(Health), "zeros too"
        assert sum(counted.values()) == 3, "the one that is ended counts no more"
        assert counted[Health.STARTING] >= 1
        assert (await store.vitals([second.id]))[second.id].health in counted

    # --- lists ------------------------------------------------------------------------------------

    async def test_unfinished_operations_come_oldest_first_and_bounded(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        late, early = await records.leased(now=9.0), await records.leased(now=3.0)
        over = await records.leased(now=1.0)
        await ended(records, over, at=10.0)
        assert [each.id for each in await overview.unfinished(limit=9)] == [early.id, late.id]
        assert [each.id for each in await overview.unfinished(limit=1)] == [early.id]

    async def test_nodes_being_ended_come_longest_first_and_bounded(
        self, store: Store, overview: OverviewStore
    ) -> None:
        nodes = await Records(store).idle(3)
        for node, at in zip(nodes, (30.0, 10.0, 20.0), strict=True):
            await store.apply(lifecycle.condemn(node, now=at, reason=Reason.OPERATOR))
        found = await overview.terminating(limit=2)
        assert [node.entered_at for node in found] == [10.0, 20.0]
        await store.apply(lifecycle.confirm_gone(found[0], now=40.0))
        assert [node.entered_at for node in await overview.terminating(limit=9)] == [20.0, 30.0]

    # --- failures ---------------------------------------------------------------------------------

    async def test_failures_are_kept_newest_first_from_a_time_on(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        operation = await records.leased()
        node = await failed(records, at=20.0, operation=operation)
        await failed(records, at=10.0)
        over = await ended(records, await store.operation(operation.id), at=30.0, node=node)
        told = [(each.what, each.id, each.at) for each in await overview.failures(since=20.0, limit=9)]
        assert told == [(Failed.OPERATION, over.id, 30.0), (Failed.NODE, node.id, 20.0)]
        first = (await overview.failures(since=0.0, limit=1))[0]
        assert (first.reason, first.node_id, first.detail) == (Reason.BOOT_TIMEOUT, node.id, "no")
        assert (first.template, first.revision) == ("web", node.revision), "of the node that failed it"

    async def test_an_operation_without_a_node_to_blame_has_the_revision_of_its_launch(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        operation = await records.leased()
        await records.called(records.plan(operation), operation.fence)
        await ended(records, await store.operation(operation.id), at=30.0)
        other = await records.leased()
        await ended(records, other, at=31.0)
        found = await overview.failures(since=0.0, limit=9)
        assert [each.revision for each in found] == [None, 1]

    async def test_a_diagnosis_tells_the_cause_of_a_failure(
        self, store: Store, overview: OverviewStore
    ) -> None:
        node = await failed(Records(store), at=20.0)
        assert [each.cause for each in await overview.failures(since=0.0, limit=9)] == [None]
        bundle = Bundle(node_id=node.id, collected_at=21.0, reason=node.reason, sections=())
        await store.file_bundle(bundle, cause=Cause.DISK_FULL)
        await store.file_bundle(bundle, cause=Cause.DNS)
        assert [each.cause for each in await overview.failures(since=0.0, limit=9)] == [Cause.DISK_FULL]

    async def test_a_failed_node_that_is_ended_is_still_one_failure(
        self, store: Store, overview: OverviewStore
    ) -> None:
        node = await failed(Records(store), at=20.0)
        doomed = await store.apply(lifecycle.condemn(node, now=80.0, reason=Reason.BOOT_TIMEOUT))
        await store.apply(lifecycle.confirm_gone(doomed, now=90.0))
        assert [each.at for each in await overview.failures(since=0.0, limit=9)] == [20.0]

    async def test_a_stray_machine_is_a_failure_and_an_unwanted_node_is_none(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        lost, unwanted, undone = await records.idle(3)
        stray = replace(records.machine(None, state=NodeState.TERMINATING, now=50.0), reason=Reason.ORPHAN)
        await store.adopt_stray(stray, now=50.0)
        await store.apply(lifecycle.condemn(lost, now=60.0, reason=Reason.HEARTBEAT_LOST))
        await store.apply(lifecycle.condemn(unwanted, now=61.0, reason=Reason.IDLE_TIMEOUT))
        rolled = lifecycle.condemn(undone, now=62.0, reason=Reason.ATTACH_FAILED, rolled_back=True)
        await store.apply(rolled)
        told = [(each.id, each.reason) for each in await overview.failures(since=0.0, limit=9)]
        assert told == [(lost.id, Reason.HEARTBEAT_LOST), (stray.id, Reason.ORPHAN)]

    async def test_what_a_run_made_for_itself_fails_with_it_alone(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        run = await records.submitted(kind=Kind.RUN)
        inner, _ = await store.submit(records.draft(key=provision_key(run.id)))
        await ended(records, inner, at=10.0)
        await ended(records, run, at=11.0)
        assert [each.id for each in await overview.failures(since=0.0, limit=9)] == [run.id]

    async def test_old_failures_are_pruned(self, store: Store, overview: OverviewStore) -> None:
        records = Records(store)
        await failed(records, at=20.0)
        await failed(records, at=30.0)
        await store.prune(before=30.0, limit=100)
        assert [each.at for each in await overview.failures(since=0.0, limit=9)] == [30.0]

    # --- handovers --------------------------------------------------------------------------------

    async def test_handovers_tell_how_long_it_took_and_how_many_were_warm(
        self, store: Store, overview: OverviewStore
    ) -> None:
        records = Records(store)
        await records.leased()
        first = await committed(records, asked=10.0, at=12.5, warm=0)
        second = await committed(records, asked=10.0, at=30.0, warm=1)
        told = [
            (each.operation_id, each.at, each.seconds, each.nodes, each.warm)
            for each in await overview.handovers(since=12.5, limit=9)
        ]
        assert told == [(second.id, 30.0, 20.0, 2, 1), (first.id, 12.5, 2.5, 2, 0)]
        assert len(await overview.handovers(since=12.6, limit=9)) == 1
        assert [each.at for each in await overview.handovers(since=0.0, limit=1)] == [30.0]

    # --- who changed what -------------------------------------------------------------------------

    async def test_what_a_person_did_is_found_with_who_did_it(
        self, store: Store, access: AccessStore, overview: OverviewStore
    ) -> None:
        records = Records(store)
        (node,) = await records.idle(1)
        operation = await records.leased()
        token = ApiToken(id="tok-1", name="laptop", role=Role.VIEWER, created_at=13.0)
        await store.limit_installation(9, now=10.0, actor="ada")
        await store.apply_template(SPEC, now=11.0, actor="bob")
        await access.pause("web", paused=True, now=12.0, actor="cyd")
        await access.add_token(token, secret_hash="hash", actor="dan")
        await access.revoke_token("tok-1", now=14.0, actor="eve")
        await store.apply(replace(lifecycle.drained(node, now=15.0), actor="fay"))
        cancel = operations.cancel_requested(operation, now=16.0)
        assert cancel is not None
        await store.write_operation(replace(cancel, actor="gus"))
        told = [(each.name, each.actor) for each in await overview.changes(since=10.0, limit=99)]
        assert told == [
            ("cancel_requested", "gus"),
            ("drained", "fay"),
            ("token_revoked", "eve"),
            ("token_added", "dan"),
            ("paused", "cyd"),
            ("applied", "bob"),
            ("limited", "ada"),
        ]
        assert len(await overview.changes(since=10.1, limit=99)) == 6
        assert [each.actor for each in await overview.changes(since=0.0, limit=2)] == ["gus", "fay"]
        feed = (await store.events(after=None, limit=999)).items
        assert {each.actor for each in feed if each.entity_id == node.id} == {"", "fay"}

    async def test_acts_come_oldest_first_with_requests_for_work_and_page_by_page(
        self, store: Store, access: AccessStore, overview: OverviewStore
    ) -> None:
        records = Records(store)
        await store.submit(replace(records.draft(), created_at=10.0), actor="ada")
        await access.pause("web", paused=True, now=12.0, actor="bob")
        await store.submit(replace(records.draft(), created_at=13.0))
        await store.limit_installation(9, now=13.0)
        for number, name in enumerate(("web", "ci", "web")):
            await access.pause(name, paused=number < 2, now=14.0, actor=f"cyd-{number}")
        told: list[tuple[str, str]] = []
        after = None
        while True:
            page = await overview.acts(since=10.0, after=after, limit=2)
            told += [(each.name, each.actor) for each in page.items]
            after = page.next
            if after is None:
                break
        assert told == [
            ("submitted", "ada"),
            ("paused", "bob"),
            ("paused", "cyd-1"),
            ("resumed", "cyd-2"),
        ], "each once, nothing that no one did, and an act without effect is none"
        later = await overview.acts(since=12.0, after=None, limit=99)
        assert [each.actor for each in later.items] == ["bob", "cyd-1", "cyd-2"]
        shown = [each.name for each in await overview.changes(since=0.0, limit=99)]
        assert "submitted" not in shown and shown[:2] == ["resumed", "paused"], "the list of changes is short"

    # --- duties -----------------------------------------------------------------------------------

    async def test_the_last_tick_of_a_duty_is_known_to_all(
        self, store: Store, overview: OverviewStore
    ) -> None:
        assert list(await overview.ticks()) == []
        await store.lease_duty("reaper", "replica-a", now=10.0, until=70.0)
        await store.lease_duty("pool", "replica-a", now=11.0, until=71.0)
        await store.lease_duty("reaper", "replica-a", now=15.0, until=75.0, problem="no answer")
        assert not await store.lease_duty("reaper", "replica-b", now=16.0, until=76.0)
        expected = [Tick(name="pool", at=11.0), Tick(name="reaper", at=15.0, problem="no answer")]
        assert list(await overview.ticks()) == expected
        await store.expire_leases()
        assert list(await overview.ticks()) == expected, "a restart does not make a tick undone"
        await store.lease_duty("reaper", "replica-b", now=20.0, until=80.0)
        assert (await overview.ticks())[1] == Tick(name="reaper", at=20.0)

    async def test_a_new_holder_takes_the_last_tick_over_until_it_has_its_own(
        self, store: Store, overview: OverviewStore
    ) -> None:
        first = DutyLease(name="reaper", until=70.0, ticked_at=9.0, problem="no answer")
        await store.lease_duties("replica-a", [first], now=10.0)
        assert list(await overview.ticks()) == [Tick(name="reaper", at=9.0, problem="no answer")]
        await store.lease_duties("replica-b", [DutyLease(name="reaper", until=140.0)], now=70.0)
        assert list(await overview.ticks()) == [Tick(name="reaper", at=9.0)]
        own = DutyLease(name="reaper", until=145.0, ticked_at=75.0)
        await store.lease_duties("replica-b", [own], now=75.0)
        assert list(await overview.ticks()) == [Tick(name="reaper", at=75.0)]

    # --- samples of the pools ---------------------------------------------------------------------

    async def test_samples_of_the_pools_are_listed_oldest_first_and_bounded(
        self, store: Store, overview: OverviewStore
    ) -> None:
        pools = (PoolCount(template="web", booting=1, idle=2, running=3, other=4, min_idle=2, max_nodes=9),)
        samples = [PoolSample(at=at, pools=pools) for at in (60.0, 120.0, 180.0)]
        for sample in reversed(samples):
            await store.keep_sample(sample, before=0.0)
        assert list(await overview.pool_samples(since=0.0, limit=10)) == samples
        assert list(await overview.pool_samples(since=120.0, limit=10)) == samples[1:]
        assert list(await overview.pool_samples(since=0.0, limit=2)) == samples[:2]

    async def test_a_later_sample_of_the_same_minute_takes_its_place(
        self, store: Store, overview: OverviewStore
    ) -> None:
        first, second = (PoolSample(at=60.0, pools=(PoolCount(template="web", idle=n),)) for n in (1, 2))
        await store.keep_sample(first, before=0.0)
        await store.keep_sample(second, before=0.0)
        assert list(await overview.pool_samples(since=0.0, limit=10)) == [second]

    async def test_samples_before_a_time_are_forgotten(self, store: Store, overview: OverviewStore) -> None:
        for at in (60.0, 120.0, 180.0):
            await store.keep_sample(PoolSample(at=at, pools=()), before=120.0)
        assert [each.at for each in await overview.pool_samples(since=0.0, limit=10)] == [120.0, 180.0]
