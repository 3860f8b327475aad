from dataclasses import replace
from typing import Any, cast

import pytest

from muster.domain.errors import Forbidden, Gone, InvalidRequest, NotYet
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.ports.store import Store
from tests.harness import Behaviour, Harness, hangs, loses_the_request, with_harness
from tests.harness.agents import new_enrolment
from tests.harness.cloud import Box

NEVER_JOINS = Behaviour(join=False)


async def a_booting_machine(harness: Harness) -> tuple[Node, Box]:
    """A machine with a record, whose agent is the test itself."""
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    replica = await harness.replica()
    await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    return node, harness.cloud.boxes[node.machine_id]


@with_harness
async def test_a_machine_that_joins_gets_a_token_that_speaks_for_its_node(harness: Harness) -> None:
    node, box = await a_booting_machine(harness)

    admission = await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    assert admission.node_id == node.id
    assert await harness.enrolment.identify(admission.token) == node.id
    joined = await harness.node(node.id)
    assert (joined.joined_at, joined.boot_id) == (harness.now, "boot-1")
    assert admission.desired.version == joined.version
    with pytest.raises(Forbidden, match="join again"):
        await harness.enrolment.identify(f"{admission.token}x")


@with_harness
async def test_no_secret_is_written_down(harness: Harness) -> None:
    _, box = await a_booting_machine(harness)
    admission = await harness.enrolment.join(box.id, key="key-of-the-agent", boot_id="boot-1")

    told = repr(await harness.events()) + repr(await harness.nodes())
    assert admission.token not in told
    assert "key-of-the-agent" not in told


@with_harness
async def test_a_machine_whose_record_is_not_written_yet_is_told_to_come_again(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    harness.cloud.script(hangs())
    replica = await harness.replica()
    operation = await replica.provision(1)
    await harness.pass_time(1.0)
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING

    with pytest.raises(NotYet) as answer:
        await harness.enrolment.join("i-0001", key="key-1", boot_id="boot-1")
    assert answer.value.retry_after > 0

    await harness.count(1, NodeState.CREATED)
    await harness.enrolment.join("i-0001", key="key-1", boot_id="boot-1")


@with_harness
async def test_a_join_that_meets_the_settling_of_its_launch_is_never_told_to_go(harness: Harness) -> None:
    """Between any two reads of the join, the launch may settle and the record appear."""
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    harness.cloud.script(hangs())
    replica = await harness.replica()
    await replica.provision(1)
    await harness.pass_time(1.0)

    class Bootstrap:
        """The store, in which the launch settles right after the first read about the machine."""

        def __getattr__(self, verb: str) -> Any:
            real = getattr(harness.store, verb)
            if verb not in ("node_by_machine", "launch_by_token"):
                return real

            async def read(*args: Any) -> Any:
                found = await real(*args)
                await harness.count(1, NodeState.CREATED)
                return found

            return read

    ports = replace(harness.ports, store=cast(Store, Bootstrap()))
    try:
        await new_enrolment(ports, harness.settings).join("i-0001", key="key-1", boot_id="boot-1")
    except NotYet:
        await harness.enrolment.join("i-0001", key="key-1", boot_id="boot-1")


@with_harness
async def test_a_machine_of_an_abandoned_launch_is_told_to_go(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(*[loses_the_request()] * 20)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1, timeout=5.0))
    await harness.nothing_is_left()
    (launch,) = await harness.launches(operation.id)
    harness.agents.script(NEVER_JOINS)
    box = harness.cloud.make(launch.token, (await harness.store.installation()).id)

    with pytest.raises(Gone):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@with_harness
async def test_a_condemned_or_terminated_nodes_machine_is_told_to_go(harness: Harness) -> None:
    node, box = await a_booting_machine(harness)
    harness.cloud.stop_seconds = 50.0
    assert node.operation_id is not None
    await harness.replica()
    replica = await harness.replica()
    await replica.cancel(node.operation_id)
    await harness.count(1, NodeState.TERMINATING)
    with pytest.raises(Gone, match="terminating"):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    await harness.count(1, NodeState.TERMINATED)
    with pytest.raises(Gone, match="terminated"):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@with_harness
async def test_a_machine_without_a_launch_is_told_to_go(harness: Harness) -> None:
    harness.agents.script(NEVER_JOINS)
    box = harness.cloud.make("inst/op-1.1", (await harness.store.installation()).id)

    with pytest.raises(Gone):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@with_harness
async def test_a_machine_of_another_installation_is_refused(harness: Harness) -> None:
    harness.agents.script(NEVER_JOINS)
    box = harness.cloud.make("other/op-1.1", "inst-other")

    with pytest.raises(Forbidden, match="another installation"):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    with pytest.raises(Forbidden):
        await harness.enrolment.join("i-9999", key="key-1", boot_id="boot-1")


@with_harness
async def test_joining_again_with_the_same_key_is_the_same_join(harness: Harness) -> None:
    node, box = await a_booting_machine(harness)
    first = await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    before = await harness.node(node.id)
    await harness.pass_time(30.0)

    again = await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    assert again.token != first.token
    assert await harness.enrolment.identify(again.token) == node.id
    with pytest.raises(Forbidden):
        await harness.enrolment.identify(first.token)
    assert await harness.node(node.id) == before
    assert len(await harness.events(node.id, "joined")) == 1


@with_harness
async def test_a_join_that_comes_again_is_no_sign_of_life(harness: Harness) -> None:
    """A proxy may send a copy of the request when the machine is gone."""
    node, box = await a_booting_machine(harness)
    await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    seen = await harness.store.last_seen([node.id])
    assert seen == {node.id: harness.now}
    await harness.pass_time(30.0)

    await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    assert await harness.store.last_seen([node.id]) == seen


@with_harness
async def test_joining_with_another_key_is_refused_and_condemns_the_node(harness: Harness) -> None:
    node, box = await a_booting_machine(harness)
    first = await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    with pytest.raises(Forbidden, match="another key"):
        await harness.enrolment.join(box.id, key="key-2", boot_id="boot-1")

    condemned = await harness.node(node.id)
    assert (condemned.state, condemned.reason) == (NodeState.TERMINATING, Reason.DUPLICATE_JOIN)
    assert await harness.enrolment.identify(first.token) == node.id
    with pytest.raises(Gone):
        await harness.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    assert node.operation_id is not None
    operation = await harness.ended(await harness.operation(node.operation_id))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DUPLICATE_JOIN


@with_harness
async def test_a_running_node_that_is_joined_by_a_copy_is_condemned_too(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (node,) = await harness.of(operation.id)

    with pytest.raises(Forbidden):
        await harness.enrolment.join(node.machine_id, key="a copy", boot_id="boot-1")

    assert (await harness.node(node.id)).reason is Reason.DUPLICATE_JOIN
    await harness.nothing_is_left()


@pytest.mark.parametrize(("key", "boot_id"), [("", "boot-1"), ("key-1", " "), ("k" * 1000, "boot-1")])
@with_harness
async def test_a_key_or_boot_id_that_is_none_is_refused(harness: Harness, key: str, boot_id: str) -> None:
    _, box = await a_booting_machine(harness)
    with pytest.raises(InvalidRequest):
        await harness.enrolment.join(box.id, key=key, boot_id=boot_id)
