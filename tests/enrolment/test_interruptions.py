"""Nodes that say that their provider takes the machine back."""

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.enrolment.enroller import NOTICE_MOST
from muster.enrolment.reports import Report
from tests.stage import NEVER_BOOTS, Stage, staged

NOTICE = Report(interrupted=120.0)


@staged
async def test_a_running_node_goes_on_until_the_time_is_over_and_its_owner_is_told(stage: Stage) -> None:
    await stage.template(max_runtime=3600.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1, run="mine"))
    (node,) = await stage.nodes(NodeState.RUNNING)
    told_at = stage.now

    for _ in range(3):
        await stage.enrolment.report(node.id, NOTICE)

    (event,) = await stage.events(node.id, "interrupted")
    assert "in 120 s" in event.detail
    held = await stage.node(node.id)
    assert (held.state, held.drain, held.deadline_at) == (NodeState.RUNNING, True, told_at + 120.0)
    assert (held.operation_id, held.run) == (operation.id, "mine")
    (ended,) = await stage.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED
    assert told_at + 120.0 <= ended.entered_at < told_at + 200.0


@staged
async def test_a_run_that_releases_in_time_gives_nobody_a_doomed_node(stage: Stage) -> None:
    await stage.template()
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    (node,) = await stage.nodes(NodeState.RUNNING)
    await stage.enrolment.report(node.id, NOTICE)

    await stage.succeeded(await replica.release(operation.id))
    (ended,) = await stage.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED


@staged
async def test_an_idle_node_is_given_up_at_once(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    await stage.enrolment.report(node.id, NOTICE)
    found = await stage.node(node.id)
    assert (found.state, found.reason) == (NodeState.TERMINATING, Reason.INTERRUPTED)


@staged
async def test_a_node_that_boots_is_given_up_at_once_and_replaced_if_the_template_says_so(
    stage: Stage,
) -> None:
    await stage.template(replacements=1)
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    await stage.until(lambda: _joined(stage))
    await stage.enrolment.report(node.id, NOTICE)
    assert (await stage.node(node.id)).reason is Reason.INTERRUPTED
    await stage.succeeded(operation)


async def _joined(stage: Stage) -> bool:
    return all(node.joined_at is not None for node in await stage.nodes(NodeState.CREATED))


@staged
async def test_a_notice_beyond_all_measure_gives_no_more_time_than_notices_do(stage: Stage) -> None:
    await stage.template(max_runtime=36000.0)
    await stage.succeeded(await (await stage.replica()).provision(1))
    (node,) = await stage.nodes(NodeState.RUNNING)
    await stage.enrolment.report(node.id, Report(interrupted=30000.0))
    assert (await stage.node(node.id)).deadline_at == stage.now + NOTICE_MOST


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_notice_of_no_time_at_all_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match="interrupted"):
        Report(interrupted=seconds)
