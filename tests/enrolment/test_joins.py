from dataclasses import replace
from typing import Any, cast

import pytest

from muster.domain.errors import Forbidden, Gone, InvalidRequest, NotYet
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.ports.store import Store
from tests.stage import Manner, Stage, hangs, loses_the_request, staged
from tests.stage.agents import enrolling
from tests.stage.cloud import Box

NOBODY = Manner(join=False)


async def a_booting_machine(stage: Stage) -> tuple[Node, Box]:
    """A machine with a record, whose agent is the test itself."""
    await stage.template()
    stage.agents.script(NOBODY)
    replica = await stage.replica()
    await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    return node, stage.cloud.boxes[node.machine_id]


@staged
async def test_a_machine_that_joins_gets_a_token_that_speaks_for_its_node(stage: Stage) -> None:
    node, box = await a_booting_machine(stage)

    admission = await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    assert admission.node_id == node.id
    assert await stage.enrolment.identify(admission.token) == node.id
    joined = await stage.node(node.id)
    assert (joined.joined_at, joined.boot_id) == (stage.now, "boot-1")
    assert admission.desired.version == joined.version
    with pytest.raises(Forbidden, match="join again"):
        await stage.enrolment.identify(f"{admission.token}x")


@staged
async def test_no_secret_is_written_down(stage: Stage) -> None:
    _, box = await a_booting_machine(stage)
    admission = await stage.enrolment.join(box.id, key="key-of-the-agent", boot_id="boot-1")

    told = repr(await stage.events()) + repr(await stage.nodes())
    assert admission.token not in told
    assert "key-of-the-agent" not in told


@staged
async def test_a_machine_whose_record_is_not_written_yet_is_told_to_come_again(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(NOBODY)
    stage.cloud.script(hangs())
    replica = await stage.replica()
    operation = await replica.provision(1)
    await stage.pass_time(1.0)
    (launch,) = await stage.launches(operation.id)
    assert launch.state is LaunchState.CALLING

    with pytest.raises(NotYet) as answer:
        await stage.enrolment.join("i-0001", key="key-1", boot_id="boot-1")
    assert answer.value.retry_after > 0

    await stage.count(1, NodeState.CREATED)
    await stage.enrolment.join("i-0001", key="key-1", boot_id="boot-1")


@staged
async def test_a_join_that_meets_the_settling_of_its_launch_is_never_told_to_go(stage: Stage) -> None:
    """Between any two reads of the join, the launch may settle and the record appear."""
    await stage.template()
    stage.agents.script(NOBODY)
    stage.cloud.script(hangs())
    replica = await stage.replica()
    await replica.provision(1)
    await stage.pass_time(1.0)

    class Bootstrap:
        """The store, in which the launch settles right after the first read about the machine."""

        def __getattr__(self, verb: str) -> Any:
            real = getattr(stage.store, verb)
            if verb not in ("node_by_machine", "launch_by_token"):
                return real

            async def read(*args: Any) -> Any:
                found = await real(*args)
                await stage.count(1, NodeState.CREATED)
                return found

            return read

    ports = replace(stage.ports, store=cast(Store, Bootstrap()))
    try:
        await enrolling(ports, stage.settings).join("i-0001", key="key-1", boot_id="boot-1")
    except NotYet:
        await stage.enrolment.join("i-0001", key="key-1", boot_id="boot-1")


@staged
async def test_a_machine_of_an_abandoned_launch_is_told_to_go(stage: Stage) -> None:
    await stage.template()
    stage.cloud.script(*[loses_the_request()] * 20)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1, timeout=5.0))
    await stage.nothing_is_left()
    (launch,) = await stage.launches(operation.id)
    stage.agents.script(NOBODY)
    box = stage.cloud.make(launch.token, (await stage.store.installation()).id)

    with pytest.raises(Gone):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@staged
async def test_a_condemned_or_terminated_nodes_machine_is_told_to_go(stage: Stage) -> None:
    node, box = await a_booting_machine(stage)
    stage.cloud.stop_seconds = 50.0
    assert node.operation_id is not None
    await stage.replica()
    replica = await stage.replica()
    await replica.cancel(node.operation_id)
    await stage.count(1, NodeState.TERMINATING)
    with pytest.raises(Gone, match="terminating"):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    await stage.count(1, NodeState.TERMINATED)
    with pytest.raises(Gone, match="terminated"):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@staged
async def test_a_machine_of_nobodys_launch_is_told_to_go(stage: Stage) -> None:
    stage.agents.script(NOBODY)
    box = stage.cloud.make("inst/op-1.1", (await stage.store.installation()).id)

    with pytest.raises(Gone):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")


@staged
async def test_a_machine_of_another_installation_is_refused(stage: Stage) -> None:
    stage.agents.script(NOBODY)
    box = stage.cloud.make("other/op-1.1", "inst-other")

    with pytest.raises(Forbidden, match="another installation"):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    with pytest.raises(Forbidden):
        await stage.enrolment.join("i-9999", key="key-1", boot_id="boot-1")


@staged
async def test_joining_again_with_the_same_key_is_the_same_join(stage: Stage) -> None:
    node, box = await a_booting_machine(stage)
    first = await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    before = await stage.node(node.id)
    await stage.pass_time(30.0)

    again = await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    assert again.token != first.token
    assert await stage.enrolment.identify(again.token) == node.id
    with pytest.raises(Forbidden):
        await stage.enrolment.identify(first.token)
    assert await stage.node(node.id) == before
    assert len(await stage.events(node.id, "joined")) == 1


@staged
async def test_joining_with_another_key_is_refused_and_condemns_the_node(stage: Stage) -> None:
    node, box = await a_booting_machine(stage)
    first = await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")

    with pytest.raises(Forbidden, match="another key"):
        await stage.enrolment.join(box.id, key="key-2", boot_id="boot-1")

    condemned = await stage.node(node.id)
    assert (condemned.state, condemned.reason) == (NodeState.TERMINATING, Reason.DUPLICATE_JOIN)
    assert await stage.enrolment.identify(first.token) == node.id
    with pytest.raises(Gone):
        await stage.enrolment.join(box.id, key="key-1", boot_id="boot-1")
    assert node.operation_id is not None
    operation = await stage.ended(await stage.operation(node.operation_id))
    assert operation.verdict is not None
    assert operation.verdict.reason is Reason.DUPLICATE_JOIN


@staged
async def test_a_running_node_that_is_joined_by_a_copy_is_condemned_too(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (node,) = await stage.of(operation.id)

    with pytest.raises(Forbidden):
        await stage.enrolment.join(node.machine_id, key="a copy", boot_id="boot-1")

    assert (await stage.node(node.id)).reason is Reason.DUPLICATE_JOIN
    await stage.nothing_is_left()


@pytest.mark.parametrize(("key", "boot_id"), [("", "boot-1"), ("key-1", " "), ("k" * 1000, "boot-1")])
@staged
async def test_a_key_or_boot_id_that_is_none_is_refused(stage: Stage, key: str, boot_id: str) -> None:
    _, box = await a_booting_machine(stage)
    with pytest.raises(InvalidRequest):
        await stage.enrolment.join(box.id, key=key, boot_id=boot_id)
