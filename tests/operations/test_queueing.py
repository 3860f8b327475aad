from collections import Counter
from dataclasses import replace

import pytest

from muster.domain.ids import OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Operation, Status
from muster.domain.reasons import ADVICE, Reason
from muster.domain.template import Reuse
from muster.operations import provision
from muster.ports.store import OperationView
from muster.ports.wakeups import ROOM
from muster.stores.sql import SqlStore
from tests.stage import Manner, Replica, Stage, staged


async def a_full_house(stage: Stage, *, max_nodes: int = 2) -> tuple[Replica, Operation]:
    await stage.template(max_nodes=max_nodes)
    replica = await stage.replica()
    return replica, await stage.succeeded(await replica.provision(max_nodes, run="first"))


async def queued(stage: Stage, replica: Replica, count: int, run: str, patience: float = 600.0) -> Operation:
    operation = await replica.provision(count, run=run, queue_timeout=patience, owner="default")

    async def in_the_queue() -> bool:
        return (await stage.operation(operation.id)).queued_since is not None

    await stage.until(in_the_queue, within=5.0)
    await stage.pass_time(1.0)
    return operation


@staged
async def test_a_queued_request_is_served_when_room_appears(stage: Stage) -> None:
    replica, first = await a_full_house(stage)
    waiting = await queued(stage, replica, 2, "second")
    await stage.pass_time(60.0)
    assert (await stage.operation(waiting.id)).status is Status.QUEUED

    await stage.succeeded(await replica.release(first.id))
    began = stage.now
    operation = await stage.succeeded(waiting)

    assert stage.now - began < 10.0
    assert len(operation.members) == 2
    assert len(stage.cloud.boxes) == 2  # the released ones serve again


@staged
async def test_a_queue_goes_on_when_the_replica_dies_that_leads_its_head(stage: Stage) -> None:
    replica, first = await a_full_house(stage, max_nodes=1)
    doomed = await stage.replica()
    head = await queued(stage, doomed, 1, "head")
    behind = await queued(stage, replica, 1, "behind")
    doomed.life.kill()
    began = stage.now
    await stage.succeeded(await replica.release(first.id))

    served = await stage.succeeded(head)

    settings = stage.settings
    assert settings.absent_after is not None
    assert stage.now - began < settings.absent_after + 2 * settings.present_every + settings.poll_every
    await stage.succeeded(await replica.release(served.id))
    await stage.succeeded(behind)


@staged
async def test_what_a_dead_replica_leads_outside_of_a_queue_waits_for_its_lease(stage: Stage) -> None:
    await stage.template()
    doomed, _ = await stage.replica(), await stage.replica()
    stage.agents.script(Manner(boot=20.0))
    operation = await doomed.provision(1)
    await stage.pass_time(5.0)
    doomed.life.kill()
    await stage.pass_time(stage.settings.lease - stage.settings.renew_every - 6.0)
    assert (await stage.operation(operation.id)).lease_owner == doomed.name
    await stage.succeeded(operation)


@staged
async def test_the_queue_is_first_come_first_served(stage: Stage) -> None:
    replica, first = await a_full_house(stage, max_nodes=1)
    order = [await queued(stage, replica, 1, f"run-{number}") for number in range(4)]
    served: list[str] = []

    await stage.succeeded(await replica.release(first.id))
    for waiting in order:
        operation = await stage.succeeded(waiting)
        served.append(operation.id)
        left = [each for each in order if each.id not in served]
        assert all([not (await stage.operation(each.id)).ended for each in left])
        await stage.succeeded(await replica.release(operation.id))

    committed = [(await stage.operation(each.id)).committed_at or 0.0 for each in order]
    assert committed == sorted(committed)


@staged
async def test_a_long_queue_does_not_write_at_each_step_that_it_takes(stage: Stage) -> None:
    replica, served = await a_full_house(stage, max_nodes=1)
    line = [await replica.provision(1, run=f"run-{n}", queue_timeout=9000.0) for n in range(20)]
    await stage.pass_time(20.0)
    before = len(await stage.events(name="queued"))

    for waiting in line:
        await stage.succeeded(await replica.release(served.id))
        served = await stage.succeeded(waiting)

    written = len(await stage.events(name="queued")) - before
    assert written <= 7 * len(line)  # each step of each would be 190


@staged
async def test_room_wakes_the_front_of_the_queue_and_not_all_of_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "NEAR", 1)
    replica, _ = await a_full_house(stage)
    head, behind = [await queued(stage, replica, 1, f"run-{n}") for n in range(2)]
    looks: Counter[str] = Counter()
    view = SqlStore.view

    async def counting(store: SqlStore, operation_id: OperationId) -> OperationView:
        looks[operation_id] += 1
        return await view(store, operation_id)

    monkeypatch.setattr(SqlStore, "view", counting)
    for _ in range(20):
        stage.wakeups.notify(ROOM)
        await stage.pass_time(0.01)

    assert looks[head.id] >= 20
    assert looks[behind.id] <= 2


@staged
async def test_the_end_of_a_long_queue_looks_seldom_and_is_served_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of thousands looks every five seconds, and the server does nothing else."""
    monkeypatch.setattr(provision, "FAR", 1)
    monkeypatch.setattr(provision, "NEAR", 1)
    replica, first = await a_full_house(stage, max_nodes=1)
    head, far = [await queued(stage, replica, 1, f"run-{n}") for n in range(2)]
    looks: Counter[str] = Counter()
    view = SqlStore.view

    async def counting(store: SqlStore, operation_id: OperationId) -> OperationView:
        looks[operation_id] += 1
        return await view(store, operation_id)

    monkeypatch.setattr(SqlStore, "view", counting)
    await stage.pass_time(4 * provision.FAR_EVERY)
    assert looks[head.id] >= 20
    assert looks[far.id] <= 5

    await stage.succeeded(await replica.release(first.id))
    operation = await stage.succeeded(head)
    await stage.succeeded(await replica.release(operation.id))
    await stage.succeeded(far)


@staged
async def test_a_queued_request_holds_nothing(stage: Stage) -> None:
    await stage.template(max_nodes=3)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(2, run="first"))
    (spare,) = await stage.warm(1)

    waiting = await queued(stage, replica, 2, "second", patience=60.0)
    await stage.count(1, NodeState.IDLE, within=5.0)

    assert await stage.of(waiting.id) == []
    assert (await stage.node(spare.id)).state is NodeState.IDLE
    operation = await stage.ended(waiting)
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert (await stage.node(spare.id)).state is NodeState.IDLE


@staged
async def test_a_newcomer_that_would_fit_does_not_overtake(stage: Stage) -> None:
    await stage.template(max_nodes=4)
    replica, other = await stage.replica(), await stage.replica()
    first = await stage.succeeded(await replica.provision(2, run="first"))
    large = await queued(stage, replica, 4, "large")

    small = await queued(stage, other, 1, "small")
    impatient = await stage.ended(await other.provision(1, run="impatient"))

    assert impatient.verdict is not None
    assert impatient.verdict.reason is Reason.CAP_REACHED
    assert "2 older requests" in impatient.verdict.message
    await stage.succeeded(await replica.release(first.id))
    large = await stage.succeeded(large)
    assert not (await stage.operation(small.id)).ended
    await stage.succeeded(await replica.release(large.id))
    await stage.succeeded(small)


@staged
async def test_a_queued_request_is_refused_when_its_patience_ends(stage: Stage) -> None:
    replica, _ = await a_full_house(stage)
    began = stage.now

    operation = await stage.ended(await replica.provision(1, run="second", queue_timeout=90.0))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert "90 s" in operation.verdict.message
    assert 90.0 <= stage.now - began <= 91.0


@staged
async def test_the_patience_of_the_head_does_not_hold_up_those_behind_it_for_ever(stage: Stage) -> None:
    await stage.template(max_nodes=2)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1, run="first"))
    head = await queued(stage, replica, 2, "head", patience=60.0)
    behind = await queued(stage, replica, 1, "behind")

    operation = await stage.succeeded(behind)

    assert (await stage.operation(head.id)).status is Status.FAILED
    assert operation.committed_at is not None
    assert operation.committed_at - head.created_at >= 60.0


@staged
async def test_a_higher_cap_lets_the_queue_move_at_once(stage: Stage) -> None:
    replica, _ = await a_full_house(stage)
    waiting = await queued(stage, replica, 2, "second")
    began = stage.now

    await stage.template(max_nodes=4)

    await stage.succeeded(waiting)
    assert stage.now - began < 2.0


@staged
async def test_a_queue_survives_the_replica_that_led_it(stage: Stage) -> None:
    replica, first = await a_full_house(stage)
    other = await stage.replica()
    order = [await queued(stage, replica, 1, f"run-{number}") for number in range(2)]
    replica.life.kill()

    await stage.succeeded(await other.release(first.id))

    for waiting in order:
        await stage.succeeded(waiting)


@pytest.mark.parametrize(("of_the_template", "over_all"), [(2, 10), (10, 2)])
@staged
async def test_a_request_that_can_never_fit_is_refused_instead_of_holding_up_the_queue(
    stage: Stage, of_the_template: int, over_all: int
) -> None:
    await stage.template(max_nodes=of_the_template)
    await stage.cap(over_all)
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(2))
    waiting = await queued(stage, replica, 1, "waiting")
    began = stage.now

    operation = await stage.ended(await replica.provision(3, run="too-large", queue_timeout=600.0))

    assert stage.now - began < 1.0
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.ABOVE_CAP
    assert "queue" not in ADVICE[Reason.ABOVE_CAP] and "release" not in ADVICE[Reason.ABOVE_CAP]
    assert operation.verdict.message == "3 nodes never fit under a cap of 2"
    await stage.succeeded(await replica.release(first.id))
    await stage.succeeded(waiting)


@staged
async def test_those_who_wait_in_line_take_no_drivers_place_from_a_release(stage: Stage) -> None:
    stage.settings = replace(stage.settings, driven_at_once=3)
    replica, first = await a_full_house(stage)
    order = [await queued(stage, replica, 1, f"run-{number}", patience=900.0) for number in range(3)]
    began = stage.now

    release = await stage.succeeded(await replica.release(first.id))

    assert stage.now - began < 10.0
    assert release.verdict is None
    for waiting in order[:2]:
        await stage.succeeded(waiting)


@staged
async def test_a_head_that_tries_keeps_its_place_no_longer_than_its_patience(stage: Stage) -> None:
    await stage.template(max_nodes=2, reuse=Reuse.NEVER)
    stage.cloud.deaf = 10**6  # what is released stays, and keeps its room
    replica = await stage.replica()
    first = await stage.succeeded(await replica.provision(2, run="first"))
    head = await replica.provision(2, run="head", queue_timeout=60.0)
    await stage.pass_time(5.0)
    await replica.release(first.id)

    ended = await stage.ended(head)

    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.CAP_REACHED
    assert "60 s" in ended.verdict.message
    assert ended.ended_at is not None
    assert 60.0 <= ended.ended_at - ended.created_at <= 70.0
    stage.cloud.deaf = 0
    await stage.succeeded(await replica.provision(1, run="behind", queue_timeout=900.0))
    stage.complaints.clear()  # machines that resisted for long
