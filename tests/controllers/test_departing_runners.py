"""Runners whose node is on its way out, in virtual time: closed to new jobs, then removed."""

from muster.controllers.attachments import Withdrawals
from muster.domain import node as nodes
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from tests.harness import Harness, Replica, with_harness
from tests.harness.github import GitHubHarness

NOTICE = Report(interrupted=120.0)


async def serving(harness: Harness, github: GitHubHarness) -> tuple[Replica, Node]:
    replica = await harness.replica()
    await harness.succeeded(await github.provision(replica, github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    return replica, node


@with_harness
async def test_a_runner_without_a_job_is_removed_when_its_machine_is_to_be_taken_back(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    _, node = await serving(harness, github)
    await harness.enrolment.report(node.id, NOTICE)
    assert not github.runners(), "no job is to begin on it"
    await github.detached(await harness.node(node.id))
    await github.detached(await harness.node(node.id))
    (ended,) = await harness.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED


@with_harness
async def test_a_runner_with_a_job_may_end_it_and_is_given_no_other(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    _, node = await serving(harness, github)
    runner = github.runner_of(node)
    runner.busy = True
    await harness.enrolment.report(node.id, NOTICE)
    await harness.pass_time(40)
    assert github.runners() == [runner]
    runner.busy = False
    await harness.pass_time(40)
    assert not github.runners()
    assert (await harness.node(node.id)).state is NodeState.RUNNING, "its time isn't over"


@with_harness
async def test_a_notice_is_taken_although_github_is_away(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    _, node = await serving(harness, github)
    github.world.fault("DELETE", 500)
    await harness.enrolment.report(node.id, NOTICE)
    assert (await harness.node(node.id)).drain
    await harness.pass_time(40)
    assert not github.runners()


@with_harness
async def test_the_runner_of_a_condemned_node_is_removed_without_waiting_for_the_sweep(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    replica, node = await serving(harness, github)
    replica.life.kill()
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    departures = Withdrawals(harness.ports)
    await departures.reconcile()
    assert not github.runners()
    asked = len(github.world.calls)
    await departures.reconcile()
    assert len(github.world.calls) == asked, "once is enough"


@with_harness
async def test_a_github_that_is_away_holds_no_termination_back(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    _, node = await serving(harness, github)
    github.world.fault("GET /repos/acme/shop/actions/runners", 500, times=3)
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    await harness.count(1, NodeState.TERMINATED)
    await harness.pass_time(150)
    assert not github.runners()


@with_harness
async def test_a_removal_without_an_answer_is_repeated_while_the_machine_ends(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    replica, node = await serving(harness, github)
    replica.life.kill()
    github.world.fault("GET /repos/acme/shop/actions/runners", 503)
    await harness.store.apply(nodes.condemn(node, now=harness.now, reason=Reason.OPERATOR))
    departures = Withdrawals(harness.ports)
    await departures.reconcile()
    assert github.runners(), "GitHub did not answer"
    await departures.reconcile()
    assert not github.runners()
