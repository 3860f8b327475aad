"""Nodes that say that their provider takes the machine back."""

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from muster.enrolment.signals import NOTICE_MOST
from tests.harness import NEVER_BOOTS, Harness, with_harness

NOTICE = Report(interrupted=120.0)


@with_harness
async def test_a_running_node_goes_on_until_the_time_is_over_and_its_owner_is_told(harness: Harness) -> None:
    await harness.template(max_runtime=3600.0)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1, run="mine"))
    (node,) = await harness.nodes(NodeState.RUNNING)
    told_at = harness.now

    for _ in range(3):
        await harness.enrolment.report(node.id, NOTICE)

    (event,) = await harness.events(node.id, "interrupted")
    assert "in 120 s" in event.detail
    held = await harness.node(node.id)
    assert (held.state, held.drain, held.deadline_at) == (NodeState.RUNNING, True, told_at + 120.0)
    assert (held.operation_id, held.run) == (operation.id, "mine")
    (ended,) = await harness.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED
    assert told_at + 120.0 <= ended.entered_at < told_at + 200.0


@with_harness
async def test_a_run_that_releases_in_time_gives_its_doomed_node_to_no_other_run(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    await harness.enrolment.report(node.id, NOTICE)

    await harness.succeeded(await replica.release(operation.id))
    (ended,) = await harness.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED


@with_harness
async def test_an_idle_node_is_given_up_at_once(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    await harness.enrolment.report(node.id, NOTICE)
    found = await harness.node(node.id)
    assert (found.state, found.reason) == (NodeState.TERMINATING, Reason.INTERRUPTED)


@with_harness
async def test_a_node_that_boots_is_given_up_at_once_and_replaced_if_the_template_says_so(
    harness: Harness,
) -> None:
    await harness.template(replacements=1)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    operation = await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    await harness.until(lambda: _joined(harness))
    await harness.enrolment.report(node.id, NOTICE)
    assert (await harness.node(node.id)).reason is Reason.INTERRUPTED
    await harness.succeeded(operation)


async def _joined(harness: Harness) -> bool:
    return all(node.joined_at is not None for node in await harness.nodes(NodeState.CREATED))


@with_harness
async def test_a_notice_beyond_all_measure_gives_no_more_time_than_notices_do(harness: Harness) -> None:
    await harness.template(max_runtime=36000.0)
    await harness.succeeded(await (await harness.replica()).provision(1))
    (node,) = await harness.nodes(NodeState.RUNNING)
    await harness.enrolment.report(node.id, Report(interrupted=30000.0))
    assert (await harness.node(node.id)).deadline_at == harness.now + NOTICE_MOST


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_notice_of_no_time_at_all_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match="interrupted"):
        Report(interrupted=seconds)
