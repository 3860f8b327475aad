from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from muster.domain import launch as launches
from muster.domain import node as lifecycle
from muster.domain import operation as operations
from muster.domain.access import ApiToken, Role
from muster.domain.desired_state import desired
from muster.domain.errors import Conflict
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Member, Operation, Status
from muster.domain.progress import Progress
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.ports.wakeups import (
    ACCESS,
    EVENTS,
    HEALTH,
    LINE,
    OPERATIONS,
    ROOM,
    Listener,
    driver_topic,
    node_topic,
    operation_topic,
    progress_topic,
)
from muster.stores.announcements import NOTHING_NEW, announcer
from muster.stores.sql import SqlStore, open_sqlite
from tests.contracts.store_contract.records import Records
from tests.domain import builders
from tests.stores.ids import CountingIds

_STEP = Progress(step=1, total_steps=5, phase="selecting", label="selecting")


class Heard:
    """Wake-ups that only remember."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def notify(self, topic: str) -> None:
        self.topics.append(topic)

    def listen(self, topics: Sequence[str]) -> Listener:
        raise NotImplementedError

    def since(self) -> list[str]:
        topics, self.topics = self.topics, []
        return sorted(topics)


def _all_of(operation: Operation) -> tuple[str, str]:
    return operation_topic(operation.id), driver_topic(operation.id)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def store(heard: Heard) -> AsyncIterator[SqlStore]:
    store = open_sqlite(":memory:", ids=CountingIds(), inline=True, after_commit=announcer(heard))
    yield store
    await store.close()


async def test_a_submission_wakes_the_drivers(store: SqlStore, heard: Heard) -> None:
    operation = await Records(store).submitted()
    assert heard.since() == sorted([OPERATIONS, EVENTS, *_all_of(operation), progress_topic(operation.id)])


async def test_a_submission_that_has_its_driver_wakes_no_other(store: SqlStore, heard: Heard) -> None:
    leased = replace(Records(store).draft(), lease_owner="me", lease_until=60.0, epoch=1)
    await store.submit(leased)
    assert OPERATIONS not in heard.since()


async def test_a_fact_about_a_node_wakes_its_operation(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    operation = await records.leased()
    (node,) = await records.created(operation, 1)
    heard.since()
    up = await store.apply(lifecycle.booted(node, now=3.0, deadline_at=500.0))
    topics = sorted([EVENTS, node_topic(node.id), *_all_of(operation)])
    assert heard.since() == sorted([*topics, HEALTH]), "booted is its word that it is ready"
    bound = await store.apply(lifecycle.attached(up, now=3.0, deadline_at=500.0))
    assert heard.since() == sorted([EVENTS, *_all_of(operation)]), "the node said so itself"
    given = await store.apply(lifecycle.release(bound, now=3.0, deadline_at=500.0))
    assert heard.since() == topics
    await store.apply(lifecycle.clean(given, now=4.0, deadline_at=500.0))
    assert heard.since() == sorted([*topics, ROOM]), "it left the operation, and can be claimed"


async def test_a_driver_is_woken_by_all_but_itself(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    operation, other = await records.leased(), await records.leased()
    nodes = await records.created(operation, 3)
    driver = driver_topic(operation.id)
    heard.since()
    own = await store.write_operation(operations.progressed(operation, _STEP, now=3.0), fence=operation.fence)
    assert driver not in heard.since()
    await store.write_operation(operations.progressed(own, _STEP, now=4.0))
    assert driver in heard.since(), "a cancel has no fence"
    changes = [lifecycle.condemn(node, now=3.0, reason=Reason.OPERATOR) for node in nodes]
    await store.apply(changes[0], fence=operation.fence)
    assert driver not in heard.since()
    await store.apply(changes[1])
    assert driver in heard.since()
    await store.apply(changes[2], fence=other.fence)
    assert driver in heard.since(), "it was the driver of another operation"


async def test_a_claim_wakes_the_nodes_and_followers_once(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    idle = await records.idle(2)
    operation = await records.leased()
    heard.since()
    await records.claim(operation, 2)
    assert heard.since() == sorted(
        [EVENTS, operation_topic(operation.id), *(node_topic(node.id) for node in idle)]
    )


async def test_a_node_that_is_gone_and_a_launch_that_closed_make_room(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    operation = await records.leased()
    (node,) = await records.created(operation, 1)
    doomed = await store.apply(lifecycle.condemn(node, now=3.0, reason=Reason.OPERATOR))
    heard.since()
    await store.apply(lifecycle.confirm_gone(doomed, now=4.0))
    assert ROOM in heard.since()
    launch = await records.called(records.plan(operation, ordinal=2), operation.fence)
    assert ROOM not in heard.since()
    abandoned = launches.abandoned(launch, now=5.0, reason=Reason.CAPACITY)
    await store.write_launch(launch, abandoned, fence=None)
    assert heard.since() == sorted([EVENTS, ROOM, *_all_of(operation)])


async def test_an_operation_that_leaves_the_queue_or_ends_makes_room(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    operation = await records.leased()
    queued = await store.write_operation(operations.queued(operation, _STEP, now=2.0))
    heard.since()
    left = await store.write_operation(operations.progressed(queued, _STEP, now=3.0))
    own = [EVENTS, ROOM, *_all_of(operation), progress_topic(operation.id)]
    assert heard.since() == sorted([*own, LINE])
    again = await store.write_operation(operations.queued(left, _STEP, now=4.0))
    assert LINE not in heard.since()
    await store.write_operation(operations.ended(again, Status.FAILED, now=5.0, progress=None))
    assert heard.since() == sorted([*own, LINE])


async def test_the_end_of_an_operation_that_did_not_wait_moves_no_queue(
    store: SqlStore, heard: Heard
) -> None:
    records = Records(store)
    operation = await records.leased()
    heard.since()
    await store.write_operation(operations.ended(operation, Status.FAILED, now=4.0, progress=None))
    assert heard.since() == sorted([EVENTS, ROOM, *_all_of(operation), progress_topic(operation.id)])


async def test_handing_over_wakes_no_node(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    await records.idle(1)
    operation = await records.leased()
    (claimed,) = await records.claim(operation, 1)
    bound = await store.apply(lifecycle.attached(claimed, now=3.0, deadline_at=500.0))
    assert bound.assignment_id is not None
    member = Member(node_id=bound.id, assignment_id=bound.assignment_id)
    commit = operations.committed(operation, (member,), _STEP, now=4.0, fresh_for=20.0)
    await store.write_operation(commit, clock=lambda: 4.0)
    heard.since()
    running = await store.apply(lifecycle.hand_over(bound, now=4.0, deadline_at=900.0))
    assert heard.since() == sorted([EVENTS, *_all_of(operation)])
    await store.apply(lifecycle.commanded(running, now=5.0))
    assert node_topic(running.id) in heard.since(), "now there is something to do"


@pytest.mark.parametrize("state", [NodeState.CREATED, NodeState.CLAIMED])
def test_a_change_that_wakes_no_node_leaves_it_with_the_same_to_do(state: NodeState) -> None:
    up = builders.node(state, booted_at=1.0)
    bound = lifecycle.attached(up, now=3.0, deadline_at=500.0)
    running = lifecycle.hand_over(bound.after, now=4.0, deadline_at=900.0)
    idle = builders.node(NodeState.IDLE, deadline_at=100.0)
    kept = lifecycle.renew(idle, now=5.0, deadline_at=500.0)
    assert {bound.name, running.name, kept.told_as} == set(NOTHING_NEW), "each of them is looked at here"
    for *before, after in ([up, bound.after, running.after], [idle, kept.after]):
        for node in before:
            said = desired(node, dead_man=60.0)
            assert replace(said, version=after.version) == desired(after, dead_man=60.0)


async def test_a_renewed_node_is_not_woken(store: SqlStore, heard: Heard) -> None:
    (node,) = await Records(store).idle(1)
    heard.since()
    extended = await store.apply(lifecycle.renew(node, now=3.0, deadline_at=2e6))
    assert heard.since() == [EVENTS]
    await store.apply(lifecycle.extend(extended, now=4.0, deadline_at=3e6, source="operator"))
    assert node_topic(node.id) in heard.since(), "only what is routine is left to the next word"


async def test_a_refused_write_and_a_beat_wake_no_listener(store: SqlStore, heard: Heard) -> None:
    records = Records(store)
    (node,) = await records.created(await records.leased(), 1)
    await store.apply(lifecycle.drained(node, now=5.0))
    heard.since()
    with pytest.raises(Conflict):
        await store.apply(lifecycle.drained(node, now=5.0))
    await store.record_beats([])
    assert heard.since() == []


async def test_a_revoked_token_and_a_new_template_make_all_replicas_forget(
    store: SqlStore, heard: Heard
) -> None:
    token = ApiToken(id="tok-1", name="ci", role=Role.ADMIN, created_at=1.0)
    await store.access.add_token(token, secret_hash="hash")
    heard.since()
    await store.access.revoke_token("tok-1", now=2.0)
    assert ACCESS in heard.since()
    await store.apply_template(TemplateSpec(name="web", provider="simulated"), now=3.0)
    assert ACCESS in heard.since()
