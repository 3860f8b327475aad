"""Runners from claim to clean, in virtual time: attached by GitHub's word, taken out, swept, judged."""

from dataclasses import replace

import pytest

from muster.domain.errors import Conflict, InvalidRequest, Refused
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from muster.enrolment.reports import Report
from muster.integrations.github.runners import RunnerSpec, runner_prefix
from tests.harness import Harness, with_harness
from tests.harness.github import REPOSITORY, GitHubHarness, asked, given


@with_harness
async def test_a_node_is_handed_over_when_github_lists_its_runner_under_the_label(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    run = github.begin()
    operation = await harness.succeeded(await github.provision(await harness.replica(), run, 2))
    assert len(operation.members) == 2
    assert [runner.labels for runner in github.runners()] == [(f"{run.id}-1",)] * 2
    nodes = await harness.nodes(NodeState.RUNNING)
    installation = await harness.store.installation()
    names = {runner_prefix(installation.id) + str(node.assignment_id) for node in nodes}
    assert {runner.name for runner in github.runners()} == names


@with_harness
async def test_a_node_s_own_word_is_not_enough(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=50)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())

    await github.until_registered()
    await harness.pass_time(20)
    (node,) = await harness.nodes(NodeState.CREATED)
    assert harness.agents.of(node.id).attached and not node.attached
    github.connect(github.runners()[0])
    await harness.succeeded(operation)


@with_harness
async def test_a_runner_without_the_label_is_not_the_one_that_was_asked_for(harness: Harness) -> None:
    """No job of this run would find it."""
    github = await GitHubHarness.set(harness, attach_timeout=50)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())

    await github.until_registered()
    (runner,) = github.runners()
    wanted, runner.labels = runner.labels, ("somebody-s",)
    github.connect(runner)
    await harness.pass_time(20)
    (node,) = await harness.nodes(NodeState.CREATED)
    assert not node.attached
    runner.labels = wanted
    await harness.succeeded(operation)


@with_harness
async def test_a_runner_that_serves_several_jobs_is_told_not_to_change_itself(harness: Harness) -> None:
    """The version is the operator's, by its SHA-256."""
    github = await GitHubHarness.set(harness)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    (kit,) = harness.agents.of(node.id).kits
    assert "--disableupdate" in given(kit)["arguments"]


@with_harness
async def test_a_runner_that_never_comes_online_fails_the_provision_and_leaves_nothing(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness, reuse=Reuse.NEVER)
    github.connects = False
    operation = await harness.ended(await github.provision(await harness.replica(), github.begin()))
    assert operation.status is Status.FAILED
    assert operation.verdict is not None and operation.verdict.reason is Reason.ATTACH_FAILED
    await harness.nothing_is_left()
    await harness.pass_time(90)
    assert not github.runners()


@with_harness
async def test_a_warm_node_whose_runner_never_comes_online_is_replaced(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=30)
    await harness.warm(2)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())
    await harness.count(1, NodeState.CLAIMED)
    await harness.pass_time(10)
    github.connects = True
    done = await harness.succeeded(operation)
    assert len(done.members) == 1
    assert not await harness.nodes(NodeState.IDLE)


@with_harness
async def test_a_node_is_not_clean_while_github_knows_its_runner(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    replica = await harness.replica()
    operation = await harness.succeeded(await github.provision(replica, github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    harness.agents.of(node.id).die()
    release = await replica.release(operation.id)
    await harness.count(1, NodeState.RELEASING)
    github.world.fault("DELETE", 500)
    with pytest.raises(Exception, match="GitHub fails with 500"):
        await github.detached(node)
    assert len(await harness.nodes(NodeState.RELEASING)) == 1
    await github.detached(node)
    await harness.succeeded(release)
    assert not github.runners()
    assert len(await harness.nodes(NodeState.IDLE)) == 1


@with_harness
async def test_a_warm_node_serves_the_same_owner_again_under_another_name(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    replica = await harness.replica()
    first = await harness.succeeded(await github.provision(replica, github.begin()))
    (before,) = github.runners()
    await harness.succeeded(await replica.release(first.id))
    second = await harness.succeeded(await github.provision(replica, github.begin()))
    assert first.members[0].node_id == second.members[0].node_id
    (after,) = github.runners()
    assert after.name != before.name and not after.ephemeral


@with_harness
async def test_after_its_one_job_the_machine_of_an_ephemeral_runner_is_condemned(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, reuse=Reuse.NEVER)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    assert github.runner_of(node).ephemeral
    await github.job_done(node)
    after = await harness.node(node.id)
    assert (after.state, after.reason) == (NodeState.TERMINATING, Reason.REUSE)
    await harness.nothing_is_left()


@with_harness
async def test_an_ephemeral_runner_that_ends_before_it_was_seen_online_has_served_its_job(
    harness: Harness,
) -> None:
    """A queued job may begin and end between two looks at GitHub."""
    github = await GitHubHarness.set(harness, attach_timeout=600, reuse=Reuse.NEVER)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())

    await github.until_registered()
    (node,) = await harness.nodes(NodeState.CREATED)
    await github.detached(node)
    assert not (await harness.node(node.id)).attached, "GitHub still lists it: only its own word says so"
    github.world.remove(github.runner_of(node))
    await github.detached(node)
    assert (await harness.ended(operation, within=30)).status is Status.SUCCEEDED
    await github.detached(node)
    after = await harness.node(node.id)
    assert (after.state, after.reason) == (NodeState.TERMINATING, Reason.REUSE)
    await harness.nothing_is_left()


@with_harness
async def test_a_kit_that_fails_before_hand_over_fails_its_node_at_once_with_its_words(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=600)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())

    await github.until_registered()
    (node,) = await harness.nodes(NodeState.CREATED)
    assignment = AssignmentId(node.assignment_id or "")
    words = "attaching ended with 1\nno such runner group"
    report = Report(detached=assignment, failed=words, failed_assignment=assignment)
    await harness.enrolment.report(node.id, report)
    failed = await harness.ended(operation, within=30)
    assert failed.verdict is not None and failed.verdict.reason is Reason.ATTACH_FAILED
    assert "attaching ended with 1" in failed.verdict.message


@with_harness
async def test_a_runner_that_ends_while_it_serves_gives_its_node_back(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    github.world.remove(github.runner_of(node))
    assignment = AssignmentId(node.assignment_id or "")
    report = Report(detached=assignment, failed="it was deleted", failed_assignment=assignment)
    await harness.enrolment.report(node.id, report)
    assert (await harness.node(node.id)).state is NodeState.IDLE


@with_harness
async def test_a_kit_is_for_the_present_assignment_of_its_own_node_until_it_is_attached(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    for assignment in (node.assignment_id or AssignmentId(""), AssignmentId("as-of-another")):
        with pytest.raises(Conflict):
            await harness.enrolment.kit(node.id, assignment)
    assert len(harness.agents.of(node.id).kits) == 1


@with_harness
async def test_secrets_are_in_the_kit_alone(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    operation = await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    (kit,) = harness.agents.of(node.id).kits
    secret = given(kit)["token"]
    assert secret not in repr(kit)
    for told in (await harness.events(), operation, node):
        assert secret not in repr(told) and "a-personal-token" not in repr(told)


@with_harness
async def test_expired_credentials_are_refused_at_once_and_nothing_is_launched(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    github.world.tokens.clear()
    replica = await harness.replica()
    with pytest.raises(Refused, match=r"acme/shop: GitHub refuses with 401 .* expired"):
        await github.provision(replica, github.begin())
    assert not harness.cloud.live() and not await harness.nodes()


@with_harness
async def test_a_github_that_is_away_at_first_is_waited_for(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    github.world.fault("GET", 500, times=2)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    assert len(github.runners()) == 1


@with_harness
async def test_nodes_are_not_attached_by_their_own_word_if_github_is_not_configured_any_more(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    await harness.warm(1)
    replica = await harness.replica()
    operation = await github.provision(replica, github.begin())
    await harness.count(1, NodeState.CLAIMED)
    harness.enrolment._ports = replace(harness.ports, runtimes={})
    await harness.pass_time(5)
    (node,) = await harness.nodes(NodeState.CLAIMED)
    await harness.enrolment.report(node.id, Report(attached=AssignmentId(node.assignment_id or "")))
    assert not (await harness.node(node.id)).attached
    await replica.cancel(operation.id)


@with_harness
async def test_credentials_that_expire_meanwhile_fail_the_provision_and_spare_the_pool(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    await harness.warm(3)
    github.world.fault("registration-token", 401, times=9)
    operation = await harness.ended(await github.provision(await harness.replica(), github.begin()))
    assert operation.status is Status.FAILED and operation.verdict is not None
    assert operation.verdict.reason is Reason.PROVIDER_REFUSED
    assert "401" in operation.verdict.message
    assert len(await harness.nodes(NodeState.IDLE)) == 2


@with_harness
async def test_a_github_that_fails_for_a_while_only_costs_time(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    github.world.fault("registration-token", 500, times=2)
    github.world.fault("registration-token", performed=True)
    github.world.fault("registration-token", 403, headers={"retry-after": "7"})
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    assert len(github.runners()) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 422])
@pytest.mark.parametrize("reuse", [Reuse.NEVER, Reuse.SAME_OWNER])
@with_harness
async def test_what_github_refuses_while_nodes_attach_fails_with_its_words_and_leaves_nothing(
    harness: Harness, status: int, reuse: Reuse
) -> None:
    github = await GitHubHarness.set(harness, reuse=reuse)
    asked_for = "generate-jitconfig" if reuse is Reuse.NEVER else "registration-token"
    github.world.fault(asked_for, status, times=9, message="no, because")
    operation = await harness.ended(await github.provision(await harness.replica(), github.begin()))
    assert operation.status is Status.FAILED and operation.verdict is not None
    assert f"{status} (no, because)" in operation.verdict.message
    await harness.nothing_is_left()
    assert not github.runners()


@pytest.mark.parametrize("status", [429, 500, 503, 0])
@with_harness
async def test_what_github_can_not_do_at_the_moment_is_asked_again(harness: Harness, status: int) -> None:
    github = await GitHubHarness.set(harness, reuse=Reuse.NEVER)
    github.world.fault("generate-jitconfig", status, times=2, headers={"retry-after": "3"})
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    assert len(github.runners()) == 1


@with_harness
async def test_a_runner_deleted_behind_our_back_is_not_handed_over(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, attach_timeout=30, reuse=Reuse.NEVER)
    github.connects = False
    operation = await github.provision(await harness.replica(), github.begin())

    await github.until_registered()
    github.world.remove(github.runners()[0])
    assert (await harness.ended(operation)).status is Status.FAILED


@with_harness
async def test_leftovers_of_ours_are_swept_and_others_are_never_touched(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin()))
    installation = await harness.store.installation()
    ours, theirs = runner_prefix(installation.id), runner_prefix(installation.id + "x")
    for name in (ours + "as-gone", theirs + "as-gone", ours, "laptop", "muster-as-gone"):
        github.world.register(REPOSITORY, name, ["x"], ephemeral=False)
    busy = github.world.register(REPOSITORY, ours + "as-busy", ["x"], ephemeral=False)
    github.connect(busy)
    busy.busy = True
    await harness.pass_time(70)
    left = {runner.name for runner in github.runners()}
    (node,) = await harness.nodes(NodeState.RUNNING)
    serving = ours + str(node.assignment_id)
    assert left == {theirs + "as-gone", ours, "laptop", "muster-as-gone", busy.name, serving}
    assert not github.world.asked(f"DELETE /repos/{REPOSITORY}/actions/runners/{busy.id}"), "not even tried"


@with_harness
async def test_the_runner_of_a_machine_that_died_is_swept_by_whichever_replica_lives(
    harness: Harness,
) -> None:
    github = await GitHubHarness.set(harness)
    first = await harness.replica()
    await harness.succeeded(await github.provision(first, github.begin()))
    (node,) = await harness.nodes(NodeState.RUNNING)
    first.life.kill()
    (runner,) = github.runners()
    runner.session = False
    harness.agents.of(node.id).power_off()
    await harness.replica()

    async def swept() -> bool:
        return not github.runners()

    await harness.until(swept)


@with_harness
async def test_an_organisation_s_runners_are_used_again_only_inside_a_group(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, tables={"runner": RunnerSpec(scope="acme")})
    replica = await harness.replica()
    with pytest.raises(InvalidRequest, match="serve all of acme and its nodes are used again"):
        await github.provision(replica, github.begin())
    await harness.template(runtime="github", tables={"runner": RunnerSpec(scope="acme")}, reuse=Reuse.NEVER)
    await harness.succeeded(await github.provision(replica, github.begin()))


@with_harness
async def test_without_a_workflow_the_template_says_where_and_the_run_is_the_label(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    replica = await harness.replica()
    with pytest.raises(
        InvalidRequest, match=r"must come with a workflow, or its template with a runner.scope"
    ):
        await replica.provision(1, run="nightly")
    runner = RunnerSpec(scope="acme", group="big", labels=("gpu",))
    github.world.groups["acme"] = {"big": 7}
    await harness.template(runtime="github", tables={"runner": runner})
    await harness.succeeded(await replica.provision(1, run="nightly"))
    assert [runner.labels for runner in github.world.of("acme")] == [("nightly", "gpu")]


@with_harness
async def test_a_label_is_the_same_in_whichever_case(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, tables={"runner": RunnerSpec(labels=("Nightly", "GPU", "gpu"))})
    run = github.begin()
    await harness.succeeded(await github.provision(await harness.replica(), run, label="NIGHTLY"))
    assert [runner.labels for runner in github.runners()] == [("NIGHTLY", "GPU")]


@with_harness
async def test_a_template_of_runners_needs_github_on_this_server(harness: Harness) -> None:
    await GitHubHarness.set(harness)
    harness.ports = replace(harness.ports, runtimes={}, duties=())
    replica = await harness.replica()
    with pytest.raises(InvalidRequest, match="the runtime github is not configured on this server"):
        await replica.provision(1, run="r")


@with_harness
async def test_an_exec_template_serves_no_workflow(harness: Harness) -> None:
    github = await GitHubHarness.set(harness)
    await harness.template("plain")
    replica = await harness.replica()
    with pytest.raises(InvalidRequest, match="`workflow` is for the runtime github"):
        await replica.provision(1, template="plain", **asked(github.begin()))


@with_harness
async def test_looks_at_github_do_not_grow_with_the_number_of_nodes(harness: Harness) -> None:
    github = await GitHubHarness.set(harness, max_nodes=60)
    await harness.cap(100)
    await harness.succeeded(await github.provision(await harness.replica(), github.begin(), 50))
    assert github.world.asked("registration-token") == 50
    assert github.world.asked("GET /repos/acme/shop/actions/runners") <= 10
