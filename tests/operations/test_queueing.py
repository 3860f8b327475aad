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
from muster.ports.wakeups import LINE, ROOM
from muster.stores.sql import SqlStore
from tests.harness import Behaviour, Harness, Replica, with_harness


async def a_full_house(harness: Harness, *, max_nodes: int = 2) -> tuple[Replica, Operation]:
    await harness.template(max_nodes=max_nodes)
    replica = await harness.replica()
    return replica, await harness.succeeded(await replica.provision(max_nodes, run="first"))


async def queued(
    harness: Harness, replica: Replica, count: int, run: str, patience: float = 600.0
) -> Operation:
    operation = await replica.provision(count, run=run, queue_timeout=patience, owner="default")

    async def in_the_queue() -> bool:
        return (await harness.operation(operation.id)).queued_since is not None

    await harness.until(in_the_queue, within=5.0)
    await harness.pass_time(1.0)
    return operation


@with_harness
async def test_a_queued_request_is_served_when_room_appears(harness: Harness) -> None:
    replica, first = await a_full_house(harness)
    waiting = await queued(harness, replica, 2, "second")
    await harness.pass_time(60.0)
    assert (await harness.operation(waiting.id)).status is Status.QUEUED

    await harness.succeeded(await replica.release(first.id))
    began = harness.now
    operation = await harness.succeeded(waiting)

    assert harness.now - began < 10.0
    assert len(operation.members) == 2
    assert len(harness.cloud.boxes) == 2  # the released ones serve again


@with_harness
async def test_a_queue_goes_on_when_the_replica_dies_that_leads_its_head(harness: Harness) -> None:
    replica, first = await a_full_house(harness, max_nodes=1)
    doomed = await harness.replica()
    head = await queued(harness, doomed, 1, "head")
    behind = await queued(harness, replica, 1, "behind")
    doomed.life.kill()
    began = harness.now
    await harness.succeeded(await replica.release(first.id))

    served = await harness.succeeded(head)

    settings = harness.settings
    assert settings.absent_after is not None
    assert harness.now - began < settings.absent_after + 2 * settings.present_every + settings.poll_every
    await harness.succeeded(await replica.release(served.id))
    await harness.succeeded(behind)


@with_harness
async def test_what_a_dead_replica_leads_outside_of_a_queue_waits_for_its_lease(harness: Harness) -> None:
    await harness.template()
    doomed, _ = await harness.replica(), await harness.replica()
    harness.agents.script(Behaviour(boot=20.0))
    operation = await doomed.provision(1)
    await harness.pass_time(5.0)
    doomed.life.kill()
    await harness.pass_time(harness.settings.lease - harness.settings.renew_every - 6.0)
    assert (await harness.operation(operation.id)).lease_owner == doomed.name
    await harness.succeeded(operation)


@with_harness
async def test_the_queue_is_first_come_first_served(harness: Harness) -> None:
    replica, first = await a_full_house(harness, max_nodes=1)
    order = [await queued(harness, replica, 1, f"run-{number}") for number in range(4)]
    served: list[str] = []

    await harness.succeeded(await replica.release(first.id))
    for waiting in order:
        operation = await harness.succeeded(waiting)
        served.append(operation.id)
        left = [each for each in order if each.id not in served]
        assert all([not (await harness.operation(each.id)).ended for each in left])
        await harness.succeeded(await replica.release(operation.id))

    committed = [(await harness.operation(each.id)).committed_at or 0.0 for each in order]
    assert committed == sorted(committed)


@with_harness
async def test_a_long_queue_does_not_write_at_each_step_that_it_takes(harness: Harness) -> None:
    replica, served = await a_full_house(harness, max_nodes=1)
    line = [await replica.provision(1, run=f"run-{n}", queue_timeout=9000.0) for n in range(20)]
    await harness.pass_time(20.0)
    before = len(await harness.events(name="queued"))

    for waiting in line:
        await harness.succeeded(await replica.release(served.id))
        served = await harness.succeeded(waiting)

    written = len(await harness.events(name="queued")) - before
    assert written <= 7 * len(line)  # each step of each would be 190


@with_harness
async def test_room_wakes_the_first_and_a_move_of_the_queue_those_near_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "NEAR", 2)
    replica, _ = await a_full_house(harness)
    head, near, far = [await queued(harness, replica, 1, f"run-{n}") for n in range(3)]
    looks: Counter[str] = Counter()
    view = SqlStore.view

    async def counting(store: SqlStore, operation_id: OperationId) -> OperationView:
        looks[operation_id] += 1
        return await view(store, operation_id)

    monkeypatch.setattr(SqlStore, "view", counting)
    for _ in range(20):
        harness.wakeups.notify(ROOM)
        await harness.pass_time(0.01)
    assert looks[head.id] >= 20
    assert looks[near.id] <= 2

    looks.clear()
    for _ in range(20):
        harness.wakeups.notify(LINE)
        await harness.pass_time(0.01)
    assert looks[near.id] >= 20
    assert max(looks[head.id], looks[far.id]) <= 2


@with_harness
async def test_a_queue_is_served_at_once_when_much_room_comes_together(harness: Harness) -> None:
    replica, served = await a_full_house(harness, max_nodes=4)
    line = [await queued(harness, replica, 1, f"run-{n}") for n in range(4)]
    freed_at = harness.now
    await harness.succeeded(await replica.release(served.id))
    committed = [(await harness.succeeded(each)).committed_at or 0.0 for each in line]
    assert max(committed) < freed_at + 1.0, "sooner than each looks by itself"


@with_harness
async def test_the_end_of_a_long_queue_looks_seldom_and_is_served_all_the_same(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of thousands looks every five seconds, and the server does nothing else."""
    monkeypatch.setattr(provision, "FAR", 1)
    monkeypatch.setattr(provision, "NEAR", 1)
    replica, first = await a_full_house(harness, max_nodes=1)
    head, far = [await queued(harness, replica, 1, f"run-{n}") for n in range(2)]
    looks: Counter[str] = Counter()
    view = SqlStore.view

    async def counting(store: SqlStore, operation_id: OperationId) -> OperationView:
        looks[operation_id] += 1
        return await view(store, operation_id)

    monkeypatch.setattr(SqlStore, "view", counting)
    await harness.pass_time(4 * provision.FAR_EVERY)
    assert looks[head.id] >= 20
    assert looks[far.id] <= 5

    await harness.succeeded(await replica.release(first.id))
    operation = await harness.succeeded(head)
    await harness.succeeded(await replica.release(operation.id))
    await harness.succeeded(far)


@with_harness
async def test_a_queued_request_holds_nothing(harness: Harness) -> None:
    await harness.template(max_nodes=3)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(2, run="first"))
    (spare,) = await harness.warm(1)

    waiting = await queued(harness, replica, 2, "second", patience=60.0)
    await harness.count(1, NodeState.IDLE, within=5.0)

    assert await harness.of(waiting.id) == []
    assert (await harness.node(spare.id)).state is NodeState.IDLE
    operation = await harness.ended(waiting)
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert (await harness.node(spare.id)).state is NodeState.IDLE


@with_harness
async def test_a_newcomer_that_would_fit_does_not_overtake(harness: Harness) -> None:
    await harness.template(max_nodes=4)
    replica, other = await harness.replica(), await harness.replica()
    first = await harness.succeeded(await replica.provision(2, run="first"))
    large = await queued(harness, replica, 4, "large")

    small = await queued(harness, other, 1, "small")
    impatient = await harness.ended(await other.provision(1, run="impatient"))

    assert impatient.verdict is not None
    assert impatient.verdict.reason is Reason.CAP_REACHED
    assert "2 older requests" in impatient.verdict.message
    await harness.succeeded(await replica.release(first.id))
    large = await harness.succeeded(large)
    assert not (await harness.operation(small.id)).ended
    await harness.succeeded(await replica.release(large.id))
    await harness.succeeded(small)


@with_harness
async def test_a_queued_request_is_refused_when_its_patience_ends(harness: Harness) -> None:
    replica, _ = await a_full_house(harness)
    began = harness.now

    operation = await harness.ended(await replica.provision(1, run="second", queue_timeout=90.0))

    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.CAP_REACHED
    assert "90 s" in operation.verdict.message
    assert 90.0 <= harness.now - began <= 91.0


@with_harness
async def test_the_patience_of_the_head_does_not_hold_up_those_behind_it_for_ever(harness: Harness) -> None:
    await harness.template(max_nodes=2)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1, run="first"))
    head = await queued(harness, replica, 2, "head", patience=60.0)
    behind = await queued(harness, replica, 1, "behind")

    operation = await harness.succeeded(behind)

    assert (await harness.operation(head.id)).status is Status.FAILED
    assert operation.committed_at is not None
    assert operation.committed_at - head.created_at >= 60.0


@with_harness
async def test_a_higher_cap_lets_the_queue_move_at_once(harness: Harness) -> None:
    replica, _ = await a_full_house(harness)
    waiting = await queued(harness, replica, 2, "second")
    began = harness.now

    await harness.template(max_nodes=4)

    await harness.succeeded(waiting)
    assert harness.now - began < 2.0


@with_harness
async def test_a_queue_survives_the_replica_that_led_it(harness: Harness) -> None:
    replica, first = await a_full_house(harness)
    other = await harness.replica()
    order = [await queued(harness, replica, 1, f"run-{number}") for number in range(2)]
    replica.life.kill()

    await harness.succeeded(await other.release(first.id))

    for waiting in order:
        await harness.succeeded(waiting)


@pytest.mark.parametrize(("of_the_template", "over_all"), [(2, 10), (10, 2)])
@with_harness
async def test_a_request_that_can_never_fit_is_refused_instead_of_holding_up_the_queue(
    harness: Harness, of_the_template: int, over_all: int
) -> None:
    await harness.template(max_nodes=of_the_template)
    await harness.cap(over_all)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(2))
    waiting = await queued(harness, replica, 1, "waiting")
    began = harness.now

    operation = await harness.ended(await replica.provision(3, run="too-large", queue_timeout=600.0))

    assert harness.now - began < 1.0
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.ABOVE_CAP
    assert "queue" not in ADVICE[Reason.ABOVE_CAP] and "release" not in ADVICE[Reason.ABOVE_CAP]
    assert operation.verdict.message == "3 nodes never fit under a cap of 2"
    await harness.succeeded(await replica.release(first.id))
    await harness.succeeded(waiting)


@with_harness
async def test_those_who_wait_in_line_take_no_drivers_place_from_a_release(harness: Harness) -> None:
    harness.settings = replace(harness.settings, driven_at_once=3)
    replica, first = await a_full_house(harness)
    order = [await queued(harness, replica, 1, f"run-{number}", patience=900.0) for number in range(3)]
    began = harness.now

    release = await harness.succeeded(await replica.release(first.id))

    assert harness.now - began < 10.0
    assert release.verdict is None
    for waiting in order[:2]:
        await harness.succeeded(waiting)


@with_harness
async def test_a_head_that_tries_keeps_its_place_no_longer_than_its_patience(harness: Harness) -> None:
    await harness.template(max_nodes=2, reuse=Reuse.NEVER)
    harness.cloud.deaf = 10**6  # what is released stays, and keeps its room
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(2, run="first"))
    head = await replica.provision(2, run="head", queue_timeout=60.0)
    await harness.pass_time(5.0)
    await replica.release(first.id)

    ended = await harness.ended(head)

    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.CAP_REACHED
    assert "60 s" in ended.verdict.message
    assert ended.ended_at is not None
    assert 60.0 <= ended.ended_at - ended.created_at <= 70.0
    harness.cloud.deaf = 0
    await harness.succeeded(await replica.provision(1, run="behind", queue_timeout=900.0))
    harness.complaints.clear()  # machines that resisted for long
