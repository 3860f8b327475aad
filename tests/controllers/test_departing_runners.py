"""Runners whose node is on its way out, in virtual time: closed to new jobs, then removed."""

from muster.controllers.attachments import Withdrawals
from muster.domain import node as nodes
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.enrolment.reports import Report
from tests.stage import Replica, Stage, staged
from tests.stage.github import GitHubStage

NOTICE = Report(interrupted=120.0)


async def serving(stage: Stage, github: GitHubStage) -> tuple[Replica, Node]:
    replica = await stage.replica()
    await stage.succeeded(await github.provision(replica, github.begin()))
    (node,) = await stage.nodes(NodeState.RUNNING)
    return replica, node


@staged
async def test_a_runner_without_a_job_is_removed_when_its_machine_is_to_be_taken_back(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    _, node = await serving(stage, github)
    await stage.enrolment.report(node.id, NOTICE)
    assert not github.runners(), "no job is to begin on it"
    await github.detached(await stage.node(node.id))
    await github.detached(await stage.node(node.id))
    (ended,) = await stage.count(1, NodeState.TERMINATED)
    assert ended.reason is Reason.INTERRUPTED


@staged
async def test_a_runner_with_a_job_may_end_it_and_is_given_no_other(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    _, node = await serving(stage, github)
    runner = github.runner_of(node)
    runner.busy = True
    await stage.enrolment.report(node.id, NOTICE)
    await stage.pass_time(40)
    assert github.runners() == [runner]
    runner.busy = False
    await stage.pass_time(40)
    assert not github.runners()
    assert (await stage.node(node.id)).state is NodeState.RUNNING, "its time isn't over"


@staged
async def test_a_notice_is_taken_although_github_is_away(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    _, node = await serving(stage, github)
    github.world.fault("DELETE", 500)
    await stage.enrolment.report(node.id, NOTICE)
    assert (await stage.node(node.id)).drain
    await stage.pass_time(40)
    assert not github.runners()


@staged
async def test_the_runner_of_a_condemned_node_is_removed_without_waiting_for_the_sweep(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    replica, node = await serving(stage, github)
    replica.life.kill()
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    departures = Withdrawals(stage.ports)
    await departures.reconcile()
    assert not github.runners()
    asked = len(github.world.calls)
    await departures.reconcile()
    assert len(github.world.calls) == asked, "once is enough"


@staged
async def test_a_github_that_is_away_holds_no_termination_back(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    _, node = await serving(stage, github)
    github.world.fault("GET /repos/acme/shop/actions/runners", 500, times=3)
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    await stage.count(1, NodeState.TERMINATED)
    await stage.pass_time(150)
    assert not github.runners()


@staged
async def test_a_removal_without_an_answer_is_repeated_while_the_machine_ends(stage: Stage) -> None:
    github = await GitHubStage.set(stage)
    replica, node = await serving(stage, github)
    replica.life.kill()
    github.world.fault("GET /repos/acme/shop/actions/runners", 503)
    await stage.store.apply(nodes.condemn(node, now=stage.now, reason=Reason.OPERATOR))
    departures = Withdrawals(stage.ports)
    await departures.reconcile()
    assert github.runners(), "GitHub did not answer"
    await departures.reconcile()
    assert not github.runners()
