"""An unforeseen error that stays ends its operation, gives back what it holds, and stops no other one."""

from collections.abc import Callable
from typing import Any

import pytest

from muster.domain import provision_decisions, refill_decisions, run_decisions
from muster.domain.cluster import ClusterState
from muster.domain.deadlines import OVERDUE_AFTER
from muster.domain.errors import StoreUnavailable
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import HOLDING, NodeState
from muster.domain.operation import Kind, Operation, OperationEvent, Status
from muster.domain.reasons import Reason
from muster.integrations.aks import decisions as clustering
from muster.operations import provision, refill
from tests.harness import NEVER_BOOTS, Behaviour, Harness, Replica, with_harness
from tests.harness.azure import batch, cluster, create, delete, nothing_of_ours

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def bug() -> RuntimeError:
    return RuntimeError(f"a bug, with token={SECRET}")


SOON = 40.0
"""Five errors, and the pauses between them."""


class FailingCall:
    """Denies one kind of call to the first operation that makes it, and to no other."""

    def __init__(self, replica: Replica, verb: str, applies: Callable[..., bool] = lambda *_: True) -> None:
        self.victim: str | None = None
        self._applies = applies
        replica.interceptor.deny[verb] = self._denied

    def _denied(self, *args: Any, fence: Any = None, **_: Any) -> Exception | None:
        subject = args[0] if args else None
        asked = getattr(subject, "launch_id", subject if isinstance(subject, str) else None)
        name = fence.operation_id if fence is not None else asked and asked.partition(".")[0]
        if name is None or not self._applies(*args):
            return None
        self.victim = self.victim or name
        return bug() if name == self.victim else None


def closing(_before: Any, after: Any) -> bool:
    return after.state is LaunchState.ABANDONED


def step(name: OperationEvent) -> Callable[..., bool]:
    """The ordinary write of that name; the failsafe's own is another."""
    return lambda change: change.name is name and not _internal(change.after.verdict)


def verb(name: str) -> Callable[..., bool]:
    return lambda change: change.name == name and change.after.reason is not Reason.INTERNAL


def _internal(verdict: Any) -> bool:
    return verdict is not None and verdict.reason is Reason.INTERNAL


async def failed_by_it(harness: Harness, operation: Operation, within: float = SOON) -> Operation:
    ended = await harness.ended(operation, within=within)
    assert ended.status is Status.FAILED
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.INTERNAL, ended.verdict
    assert SECRET not in ended.verdict.message
    logged = {getattr(record, "error_id", None) for record in harness.complaints}
    assert any(each is not None and each in ended.verdict.message for each in logged), "the log has its id"
    harness.complaints.clear()
    return ended


async def all_room_is_there(harness: Harness, replica: Replica) -> None:
    """Another run gets as many nodes as there may be; then nothing is left."""
    replica.interceptor.deny.clear()
    other = await harness.succeeded(await replica.provision(2, run="other", queue_timeout=900.0))
    await harness.succeeded(await replica.release(other.id))
    assert not await harness.nodes(*HOLDING)
    await harness.nothing_is_left(idle=None)


PLACES: dict[str, tuple[str, Callable[..., bool]]] = {
    "the view": ("view", lambda *_: True),
    "the claim": ("claim", lambda *_: True),
    "the reservation": ("reserve", lambda *_: True),
    "any write of a launch": ("write_launch", lambda *_: True),
    "the provider's launch": ("provider.launch", lambda *_: True),
    "adopting": ("settle", lambda *_: True),
    "showing": ("write_operation", step(OperationEvent.PROGRESSED)),
    "the commit": ("write_operation", step(OperationEvent.COMMITTED)),
    "the hand-over": ("apply_all", lambda *_: True),
    "the end": ("write_operation", step(OperationEvent.ENDED)),
    "all three at once": ("complete", lambda *_: True),
}


@pytest.mark.parametrize("place", PLACES)
@with_harness
async def test_an_error_that_stays_ends_one_provision_only(harness: Harness, place: str) -> None:
    await harness.template(max_nodes=4)
    await harness.warm(1)
    replica = await harness.replica()
    replica.interceptor.in_steps = place in ("the commit", "the hand-over", "the end")
    failing = FailingCall(replica, *PLACES[place])
    operation = await replica.provision(2)
    await harness.until(_cursed(failing), within=SOON)
    await harness.succeeded(await replica.provision(1, run="beside"))

    ended = await failed_by_it(harness, operation)

    assert failing.victim == operation.id
    assert ended.queued_since is None
    assert not [node for node in await harness.of(operation.id) if node.state in HOLDING]
    await harness.until(lambda: _closed(harness, operation), within=900.0)
    beside, *_ = [each for each in await harness.of_kind(Kind.PROVISION) if each.run == "beside"]
    await harness.succeeded(await replica.release(beside.id))
    harness.complaints.clear()
    replica.interceptor.deny.clear()
    everything = await harness.succeeded(await replica.provision(4, run="all", queue_timeout=900.0))
    await harness.succeeded(await replica.release(everything.id))
    await harness.nothing_is_left(idle=None)


def _cursed(failing: FailingCall) -> Callable[[], Any]:
    async def struck() -> bool:
        return failing.victim is not None

    return struck


async def _closed(harness: Harness, operation: Operation) -> bool:
    return not any(launch.open for launch in await harness.launches(operation.id))


STEPS: dict[str, tuple[str, Callable[..., bool]]] = {
    "the verdict": ("write_operation", step(OperationEvent.FAILING)),
    "giving back a warm node": ("apply", verb("release")),
    "throwing away a new one": ("apply", verb("condemn")),
    "the end": ("write_operation", step(OperationEvent.ENDED)),
}


@pytest.mark.parametrize("which", STEPS)
@with_harness
async def test_an_error_in_each_step_of_a_rollback_ends_it_all_the_same(harness: Harness, which: str) -> None:
    await harness.template(max_nodes=2)
    await harness.warm(1)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    FailingCall(replica, *STEPS[which])

    ended = await failed_by_it(harness, await replica.provision(2, timeout=30.0), within=30.0 + SOON)

    assert ended.ended_at is not None
    assert ended.ended_at - ended.created_at < 40.0, "past its deadline there is no time for many tries"
    await all_room_is_there(harness, replica)


@with_harness
async def test_nodes_that_cannot_be_given_back_at_all_go_by_their_own_deadline(harness: Harness) -> None:
    await harness.template(max_nodes=2)
    await harness.warm(2)
    replica = await harness.replica()
    replica.interceptor.in_steps = True
    FailingCall(replica, "apply_all")
    FailingCall(replica, "apply")

    ended = await failed_by_it(harness, await replica.provision(2))

    assert ended.committed
    assert len(await harness.nodes(NodeState.CLAIMED)) == 2
    await harness.count(0, NodeState.CLAIMED, within=3600.0)
    await all_room_is_there(harness, replica)


@with_harness
async def test_the_head_of_a_queue_that_cannot_be_read_frees_its_place(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    first = await harness.succeeded(await replica.provision(1, run="first"))
    head = await replica.provision(1, run="head", queue_timeout=600.0)
    await harness.pass_time(2.0)
    behind = await replica.provision(1, run="behind", queue_timeout=600.0)
    await harness.pass_time(2.0)
    replica.interceptor.deny["view"] = lambda name: bug() if name == head.id else None

    await harness.succeeded(await replica.release(first.id))
    await failed_by_it(harness, head)

    await harness.succeeded(behind)


@with_harness
async def test_a_cancel_that_comes_meanwhile_takes_effect(harness: Harness, monkeypatch: Any) -> None:
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    monkeypatch.setattr(provision, "decide", _raising)
    operation = await replica.provision(1)
    await harness.pass_time(3.0)
    await replica.cancel(operation.id)

    ended = await harness.ended(operation, within=SOON)

    assert ended.status is Status.CANCELLED
    assert ended.verdict is not None
    assert "it was cancelled" in ended.verdict.message
    assert harness.complaints
    harness.complaints.clear()
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_errors_are_counted_across_a_takeover(harness: Harness, monkeypatch: Any) -> None:
    await harness.template()
    first = await harness.replica()
    monkeypatch.setattr(provision, "decide", _raising)
    operation = await first.provision(1)
    await harness.pass_time(2.0)
    first.life.kill()
    counted = (await harness.operation(operation.id)).errors
    assert 0 < counted < harness.settings.errors_most - 1
    await harness.replica()

    await failed_by_it(harness, operation, within=harness.settings.lease + SOON)

    told = [event.changes["errors"] for event in await harness.events(operation.id, "erred")]
    assert told == list(range(1, harness.settings.errors_most))
    assert await harness.events(operation.id, "taken_over")


@with_harness
async def test_an_operation_that_advances_again_has_no_errors(harness: Harness, monkeypatch: Any) -> None:
    await harness.template()
    replica = await harness.replica()
    monkeypatch.setattr(provision, "decide", _raising)
    operation = await replica.provision(1)
    await harness.pass_time(4.0)
    assert (await harness.operation(operation.id)).errors
    monkeypatch.setattr(provision, "decide", provision_decisions.decide)

    assert (await harness.succeeded(operation)).errors == 0
    assert harness.complaints
    harness.complaints.clear()


@with_harness
async def test_what_its_driver_cannot_end_is_taken_from_it_and_ended(harness: Harness) -> None:
    await harness.template(max_nodes=2)
    await harness.warm(2)
    sick, well = await harness.replica(), await harness.replica()
    sick.interceptor.deny["lease_duties"] = StoreUnavailable("not for this one")
    operation = await sick.provision(2, timeout=30.0)
    sick.interceptor.deny.update(write_operation=bug(), complete=bug())
    await harness.pass_time(30.0 + OVERDUE_AFTER - 1.0)
    assert not (await harness.operation(operation.id)).ended

    ended = await harness.ended(operation, within=60.0)

    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.INTERNAL
    assert "after its deadline" in ended.verdict.message
    harness.complaints.clear()
    await all_room_is_there(harness, well)
    harness.complaints.clear()


# --- the other kinds --------------------------------------------------------------------------------------


@with_harness
async def test_a_refill_that_cannot_go_on_ends_and_another_fills_the_pool(
    harness: Harness, monkeypatch: Any
) -> None:
    await harness.template(min_idle=1, max_nodes=1)
    monkeypatch.setattr(refill, "decide", _raising)
    await harness.replica()

    async def refilling_begins() -> bool:
        return bool(await harness.of_kind(Kind.REFILL))

    await harness.until(refilling_begins)
    (sick,) = await harness.of_kind(Kind.REFILL)
    await failed_by_it(harness, sick)

    monkeypatch.setattr(refill, "decide", refill_decisions.decide)
    await harness.count(1, NodeState.IDLE)


@with_harness
async def test_a_release_that_cannot_go_on_throws_the_nodes_away(harness: Harness) -> None:
    await harness.template(max_nodes=2)
    replica = await harness.replica()
    made = await harness.succeeded(await replica.provision(2))
    FailingCall(replica, "apply_all")

    await failed_by_it(harness, await replica.release(made.id))

    await all_room_is_there(harness, replica)


@pytest.mark.parametrize("at", [None, Status.SUCCEEDED], ids=["while it boots", "while it works"])
@with_harness
async def test_a_run_that_cannot_go_on_gives_its_nodes_back(
    harness: Harness, monkeypatch: Any, at: Status | None
) -> None:
    await harness.template(max_nodes=2)
    harness.agents.script(*[Behaviour(works=None) if at else NEVER_BOOTS] * 2)
    replica = await harness.replica()

    def decide(seen: run_decisions.Situation) -> run_decisions.Action:
        if seen.provision is not None and (at is None or seen.provision.status is at):
            raise bug()
        return running_decide(seen)

    running_decide = run_decisions.decide
    monkeypatch.setattr(run_decisions, "decide", decide)
    await failed_by_it(harness, await replica.run(2), within=120.0)

    monkeypatch.setattr(run_decisions, "decide", running_decide)
    await harness.nothing_is_left(idle=None)
    await all_room_is_there(harness, replica)


@with_harness
async def test_a_cluster_whose_work_cannot_go_on_is_left_as_failed_and_can_be_deleted(
    harness: Harness, monkeypatch: Any
) -> None:
    await batch(harness)
    replica = await harness.replica()
    build, clear = clustering.build, clustering.clear
    monkeypatch.setattr(clustering, "build", _raising)
    await failed_by_it(harness, await create(replica), within=600.0)
    monkeypatch.setattr(clustering, "build", build)
    assert (await cluster(harness)).state is ClusterState.FAILED

    monkeypatch.setattr(clustering, "clear", _raising)
    await failed_by_it(harness, await delete(replica), within=600.0)
    monkeypatch.setattr(clustering, "clear", clear)
    left = await cluster(harness)
    assert (left.state, left.reason) == (ClusterState.FAILED, Reason.INTERNAL)
    assert "delete the cluster again" in left.detail

    await harness.succeeded(await delete(replica))
    nothing_of_ours(harness)


def _raising(*_: Any) -> Any:
    raise bug()
