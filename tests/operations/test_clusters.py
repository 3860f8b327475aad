"""Creating and deleting clusters, over the simulated Azure, in virtual time."""

from dataclasses import replace

import pytest

from muster.domain.cluster import ClusterState
from muster.domain.deadlines import HARD, Limits
from muster.domain.errors import ClusterExists, InvalidRequest, NotCancellable, NotFound
from muster.domain.operation import Kind, Operation, Status
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest, ProvisionRequest
from muster.integrations.aks.error_codes import Problem
from muster_simulation.arm import Arm, Fault, Paces
from muster_simulation.arm.faults import Verb
from muster_simulation.arm.resources import Assignment
from tests.harness import Harness, with_harness
from tests.harness.azure import (
    REGISTRY,
    SPEC,
    batch,
    cluster,
    create,
    delete,
    nothing_of_ours,
    published,
)
from tests.harness.harness import run_scenario

BROKEN = Problem(status=500, code="InternalServerError", message="Try again.")
NO = Problem(status=403, code="AuthorizationFailed", message="You may not do that.")
QUOTA = Problem(
    code="QuotaExceeded",
    message="exceeding approved Total Regional Cores quota. Current Limit: 24, Current Usage: 4,"
    " Additional Required: 44, (Minimum) New Limit Required: 48.",
)


async def failed(harness: Harness, operation: Operation, reason: Reason, *says: str) -> Operation:
    ended = await harness.ended(operation)
    assert ended.status is Status.FAILED
    assert ended.verdict is not None
    assert ended.verdict.reason is reason, ended.verdict
    for each in says:
        assert each in ended.verdict.message
    return ended


# --- how it goes when it goes well ---------------------------------------------------------------


@with_harness
async def test_a_cluster_is_made_in_five_steps_and_deleted_without_a_trace(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    operation = await harness.succeeded(await create(replica))

    found = await cluster(harness)
    assert (found.state, found.fqdn) == (ClusterState.READY, "c1.hcp.westeurope.azmk8s.io")
    assert operation.result == found.fqdn
    assert [each.name for each in harness.arm.assignments.values()] and not harness.arm.changed
    assert harness.arm.calls.count(Verb.PUT_CLUSTER) == harness.arm.calls.count(Verb.PUT_GROUP) == 1

    await harness.succeeded(await delete(replica))
    assert (await cluster(harness)).state is ClusterState.DELETED
    nothing_of_ours(harness)


@with_harness
async def test_every_publish_has_step_and_total_and_never_goes_back(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    operation = await harness.succeeded(await create(replica))
    for work in (operation, await harness.succeeded(await delete(replica))):
        shown = await published(harness, work)
        assert {each.total_steps for each in shown} == {5}
        steps = [each.step for each in shown]
        assert steps == sorted(steps)
        assert steps[-1] == 5
        assert [each.percent for each in shown] == sorted(each.percent for each in shown)
        assert shown[-1].percent == 100.0
        assert all(each.label and each.phase for each in shown)
        kept = [each.link for each in shown if each.parts]
        assert kept and all(link.endswith("/managedClusters/c1") for link in kept)


@with_harness
async def test_while_azure_works_its_state_its_time_and_each_pool_are_shown(harness: Harness) -> None:
    harness.arm.paces = Paces()
    await batch(harness)
    operation = await harness.succeeded(await create(await harness.replica()))
    shown = [each for each in await published(harness, operation) if each.message.startswith("AKS state")]
    said = [each.message for each in shown]
    assert "AKS state: Creating · ARM 20s" in said
    assert "AKS state: Creating · ARM 1m 40s" in said
    chips = [[(part.name, part.state, part.detail, part.tone) for part in each.parts] for each in shown]
    assert [
        ("systempool", "Succeeded", "1n", Tone.SUCCESS),
        ("blastpool", "Creating", "10n", Tone.ACTIVE),
    ] in chips
    assert all(each.provider_since is not None for each in shown)


@with_harness
async def test_the_expected_end_is_the_median_of_earlier_creates_and_none_before(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    first = await harness.succeeded(await create(replica))
    assert all(each.expected_at is None for each in await published(harness, first))
    took = (first.ended_at or 0.0) - first.created_at
    second = await harness.succeeded(await create(replica, "c2"))
    expected = [each.expected_at for each in await published(harness, second) if each.step == 3]
    assert expected[0] == pytest.approx(second.created_at + took, abs=1.0)


@with_harness
async def test_a_create_that_azure_finishes_at_once_is_ready_at_once(harness: Harness) -> None:
    harness.arm.paces = Paces(create=0.0, pool=0.0)
    await batch(harness)
    operation = await harness.succeeded(await create(await harness.replica()))
    assert (operation.ended_at or 0.0) - operation.created_at < harness.clusters.poll_every


@with_harness
async def test_it_is_not_ready_before_it_runs(harness: Harness) -> None:
    await batch(harness)
    operation = await create(await harness.replica())
    await harness.pass_time(5.0)
    made = next(iter(harness.arm.clusters.values()))
    made.power = "Stopped"
    await harness.pass_time(200.0)
    waiting = await harness.operation(operation.id)
    assert waiting.progress is not None
    assert waiting.progress.message.startswith("AKS state: Succeeded · power Stopped")
    made.power = "Running"
    await harness.succeeded(operation)


# --- looks that fail, answers that wait ----------------------------------------------------------


@with_harness
async def test_a_look_that_fails_is_shown_as_unknown_and_never_as_a_failure(harness: Harness) -> None:
    await batch(harness)
    harness.arm.faults.add(
        Fault(on=Verb.GET_CLUSTER, problem=BROKEN, skip=3, times=2),
        Fault(on=Verb.GET_CLUSTER, hangs=100.0, skip=6),
        Fault(on=Verb.POLL, problem=BROKEN, skip=2, times=2),
    )
    operation = await harness.succeeded(await create(await harness.replica()))
    unknown = [each for each in await published(harness, operation) if "AKS state: unknown" in each.message]
    assert unknown
    assert {part.state for each in unknown for part in each.parts} == {"unknown"}
    assert {part.name for each in unknown for part in each.parts} == {"systempool", "blastpool"}


@with_harness
async def test_a_look_that_is_refused_while_azure_works_is_unknown_too(harness: Harness) -> None:
    await batch(harness)
    harness.arm.faults.add(Fault(on=Verb.GET_CLUSTER, problem=NO, skip=4, times=2))
    operation = await harness.succeeded(await create(await harness.replica()))
    unknown = [each for each in await published(harness, operation) if "AKS state: unknown" in each.message]
    assert any("AuthorizationFailed" in each.message for each in unknown)
    assert {part.state for each in unknown for part in each.parts} == {"unknown"}


@with_harness
async def test_looks_that_stay_refused_end_at_the_deadline(harness: Harness) -> None:
    await batch(harness, provision_timeout=300.0)
    harness.arm.faults.add(Fault(on=Verb.GET_CLUSTER, problem=NO, skip=4, times=12))
    operation = await create(await harness.replica())
    await failed(harness, operation, Reason.DEADLINE_EXCEEDED, "step 3/5")


@pytest.mark.parametrize("status", [404, 429, 500, 401, 403])
@with_harness
async def test_a_complete_cluster_is_ready_although_its_polls_fail(harness: Harness, status: int) -> None:
    await batch(harness)
    lost = Problem(status=status, code="Whatever", message="No.", retry_after=30.0)
    harness.arm.faults.add(Fault(on=Verb.POLL, problem=lost, times=1000))
    operation = await harness.succeeded(await create(await harness.replica()))
    assert (operation.ended_at or 0.0) < operation.deadline_at
    assert harness.arm.calls.count(Verb.PUT_CLUSTER) == 1


@with_harness
async def test_fields_that_azure_leaves_out_are_shown_as_unknown(harness: Harness) -> None:
    await batch(harness)
    operation = await create(await harness.replica())
    await harness.pass_time(1.0)
    look = harness.clusters.azure._sight

    def bare(found: object) -> object:
        return replace(look(found), state="", power="", pools=())  # type: ignore[arg-type]

    harness.clusters.azure._sight = bare  # type: ignore[assignment, method-assign]
    await harness.pass_time(60.0)
    waiting = await harness.operation(operation.id)
    assert waiting.progress is not None
    assert waiting.progress.message == "AKS state: unknown · ARM 1m 00s"
    assert [part.name for part in waiting.progress.parts] == ["systempool", "blastpool"]
    harness.clusters.azure._sight = look  # type: ignore[method-assign]
    await harness.succeeded(operation)


@with_harness
async def test_throttling_is_waited_out_as_long_as_told(harness: Harness) -> None:
    await batch(harness)
    slow = Problem(status=429, code="TooManyRequests", message="", retry_after=90.0)
    harness.arm.faults.add(Fault(on=Verb.PUT_CLUSTER, problem=slow))
    operation = await create(await harness.replica())
    await harness.pass_time(80.0)
    assert harness.arm.calls.count(Verb.PUT_CLUSTER) == 1
    await harness.succeeded(operation)
    assert harness.arm.calls.count(Verb.PUT_CLUSTER) == 2


@with_harness
async def test_another_operation_in_progress_is_waited_for(harness: Harness) -> None:
    await batch(harness)
    busy = Problem(status=409, code="OperationNotAllowed", message="Another operation is in progress.")
    harness.arm.faults.add(Fault(on=Verb.PUT_CLUSTER, problem=busy, times=3))
    await harness.succeeded(await create(await harness.replica()))


@with_harness
async def test_a_new_identity_is_waited_for_and_a_group_until_it_is_visible(harness: Harness) -> None:
    harness.arm.paces = Paces(principal=45.0, group_visible=12.0)
    await batch(harness)
    await harness.succeeded(await create(await harness.replica()))
    assert harness.arm.calls.count(Verb.PUT_GROUP) == 1
    assert len(harness.arm.assignments) == 1


@with_harness
async def test_a_new_group_is_waited_for_until_a_cluster_can_be_put_into_it(harness: Harness) -> None:
    harness.arm.paces = Paces(group_known=30.0)
    await batch(harness)
    await harness.succeeded(await create(await harness.replica()))
    assert harness.arm.calls.count(Verb.PUT_GROUP) == 1


@with_harness
async def test_a_group_that_stays_unknown_fails_the_create_after_two_minutes(harness: Harness) -> None:
    harness.arm.paces = Paces(group_known=1000.0)
    await batch(harness)
    operation = await create(await harness.replica())
    ended = await failed(harness, operation, Reason.PROVIDER_REFUSED, "check resource_group = rg-batch")
    assert (ended.ended_at or 0.0) - ended.created_at == pytest.approx(150.0, abs=40.0)


@with_harness
async def test_an_identity_that_stays_unknown_fails_after_a_minute(harness: Harness) -> None:
    harness.arm.paces = Paces(principal=1e6)
    await batch(harness)
    await failed(
        harness, await create(await harness.replica()), Reason.PROVIDER_ERROR, "step 4/5", "for a minute"
    )
    nothing_of_ours(harness)


@with_harness
async def test_an_absence_while_an_identity_is_waited_for_does_not_count(harness: Harness) -> None:
    harness.arm.paces = Paces(principal=400.0)
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)

    async def granting() -> bool:
        return Verb.PUT_ASSIGNMENT in harness.arm.calls

    await harness.until(granting)
    await replica.life.die()
    await harness.pass_time(360.0)
    await harness.replica()
    await harness.succeeded(operation)


@with_harness
async def test_a_role_that_was_assigned_by_hand_is_no_error_and_stays(harness: Harness) -> None:
    await batch(harness)
    theirs = Assignment(name="theirs", scope=REGISTRY, role="AcrPull", principal="kubelet-of-c1")
    harness.arm.assignments[theirs.name] = theirs
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    await harness.succeeded(await delete(replica))
    assert list(harness.arm.assignments) == ["theirs"]


# --- what was there before -----------------------------------------------------------------------


@with_harness
async def test_a_group_that_is_there_is_taken_as_it_is_also_in_another_region_and_kept(
    harness: Harness,
) -> None:
    await batch(harness)
    harness.arm.put_group("RG-Batch", "northeurope", {"owner": "somebody"})
    replica = await harness.replica()
    operation = await harness.succeeded(await create(replica))
    notes = [each.message for each in await published(harness, operation)]
    assert "the resource group is in northeurope; the cluster goes to westeurope" in notes
    assert Verb.PUT_GROUP not in harness.arm.calls
    gone = await harness.succeeded(await delete(replica))
    assert "was kept: Muster didn't make it" in gone.result
    assert harness.arm.groups["rg-batch"].tags == {"owner": "somebody"}
    assert not harness.arm.clusters
    assert not harness.arm.changed


@with_harness
async def test_a_group_that_holds_something_else_is_kept(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    harness.arm.groups["rg-batch"].extras.append("/subscriptions/s/…/disks/precious")
    gone = await harness.succeeded(await delete(replica))
    assert "was kept: it holds /subscriptions/s/…/disks/precious" in gone.result
    assert list(harness.arm.groups) == ["rg-batch"]


@with_harness
async def test_a_group_that_another_cluster_is_meant_for_is_kept_until_the_last_one_goes(
    harness: Harness,
) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    await harness.succeeded(await create(replica, "c2"))
    gone = await harness.succeeded(await delete(replica))
    assert "was kept: it contains cluster c2" in gone.result
    await harness.succeeded(await delete(replica, "c2"))
    nothing_of_ours(harness)


@with_harness
async def test_a_name_that_a_foreign_cluster_has_is_refused_and_that_one_left_alone(
    harness: Harness,
) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    theirs = next(iter(harness.arm.clusters.values()))
    theirs.asked = replace(theirs.asked, tags={"owner": "somebody"})
    await harness.store.clusters.named("c1")
    other = await create(replica, "c2")
    await harness.succeeded(other)
    removed = await harness.succeeded(await delete(replica))
    assert "c1" in [each.name for each in harness.arm.clusters.values()], "it isn't tagged as ours any more"
    assert removed.status is Status.SUCCEEDED
    await failed(harness, await create(replica), Reason.NAME_TAKEN, "step 1/5", "didn't make")
    assert theirs.asked.tags == {"owner": "somebody"}
    assert not harness.arm.changed


# --- failures ------------------------------------------------------------------------------------

STEPS = [
    (Verb.GET_CLUSTER, 0, "step 1/5, Preparing the request"),
    (Verb.PUT_GROUP, 0, "step 2/5, Ensuring the resource group"),
    (Verb.PUT_CLUSTER, 0, "step 3/5, Creating the AKS cluster"),
    (Verb.PUT_ASSIGNMENT, 0, "step 4/5, Granting role assignments"),
]


@pytest.mark.parametrize(("verb", "skip", "step"), STEPS)
def test_a_failure_names_its_step_is_not_repeated_and_leaves_nothing(
    verb: Verb, skip: int, step: str
) -> None:
    async def scenario(harness: Harness) -> None:
        await batch(harness)
        harness.arm.faults.add(Fault(on=verb, problem=NO, skip=skip))
        operation = await failed(harness, await create(await harness.replica()), Reason.PERMISSION, step)
        assert operation.progress is not None
        assert f"step {operation.progress.step}/5, {operation.progress.label}" in (
            operation.verdict.message if operation.verdict else ""
        )
        nothing_of_ours(harness)
        assert (await cluster(harness)).state is ClusterState.DELETED

    run_scenario(scenario)


@with_harness
async def test_a_registry_that_is_not_there_fails_the_create_and_names_what_to_check(
    harness: Harness,
) -> None:
    await batch(harness)
    gone = Problem(status=404, code="ResourceNotFound", message="No such registry.")
    harness.arm.faults.add(Fault(on=Verb.PUT_ASSIGNMENT, problem=gone))
    operation = await create(await harness.replica())
    await failed(
        harness, operation, Reason.PROVIDER_REFUSED, "step 4/5", "check roles.scope = /subscriptions/"
    )
    nothing_of_ours(harness)


@with_harness
async def test_granting_that_never_works_out_ends_at_the_deadline(harness: Harness) -> None:
    await batch(harness, provision_timeout=600.0)
    harness.arm.faults.add(Fault(on=Verb.PUT_ASSIGNMENT, problem=BROKEN, times=1000))
    await failed(harness, await create(await harness.replica()), Reason.DEADLINE_EXCEEDED, "step 4/5")
    nothing_of_ours(harness)


@with_harness
async def test_who_may_not_even_look_is_told_and_nothing_waits_to_be_undone(harness: Harness) -> None:
    await batch(harness)
    for verb in (Verb.GET_CLUSTER, Verb.GET_GROUP, Verb.LIST_GROUP):
        harness.arm.faults.add(Fault(on=verb, problem=NO, times=1000))
    await failed(harness, await create(await harness.replica()), Reason.PERMISSION, "step 1/5")
    assert (await cluster(harness)).state is ClusterState.DELETED


@with_harness
async def test_a_quota_is_told_with_what_is_missing_and_what_would_fit(harness: Harness) -> None:
    await batch(harness)
    harness.arm.next_problem = QUOTA
    await failed(
        harness,
        await create(await harness.replica()),
        Reason.QUOTA,
        "step 3/5",
        "the Total Regional Cores quota in westeurope is 24 vCPUs short",
        "5 of the 11 nodes would fit",
    )
    nothing_of_ours(harness)


@with_harness
async def test_pools_that_fail_one_by_one_are_shown_and_fail_the_cluster(harness: Harness) -> None:
    await batch(harness)
    harness.arm.next_failing_pools = ("blastpool",)
    operation = await failed(
        harness, await create(await harness.replica()), Reason.PROVIDER_ERROR, "pool blastpool is Failed"
    )
    last = [each for each in await published(harness, operation) if each.step == 3 and "AKS" in each.message]
    assert any(part.tone is Tone.DANGER for each in last for part in each.parts)
    nothing_of_ours(harness)


@with_harness
async def test_a_failed_cluster_is_kept_if_its_template_says_so_and_can_be_deleted(harness: Harness) -> None:
    await batch(harness, keep_failed=True)
    harness.arm.next_problem = QUOTA
    replica = await harness.replica()
    await failed(harness, await create(replica), Reason.QUOTA)
    kept = await cluster(harness)
    assert (kept.state, kept.reason) == (ClusterState.FAILED, Reason.QUOTA)
    assert await harness.store.clusters.token(kept.id) is None
    assert len(harness.arm.clusters) == 1
    with pytest.raises(ClusterExists, match="delete it first"):
        await create(replica)
    await harness.succeeded(await delete(replica))
    nothing_of_ours(harness)


@with_harness
async def test_what_azure_refuses_to_delete_stays_listed_and_can_be_tried_again(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    harness.arm.faults.add(Fault(on=Verb.DELETE_CLUSTER, problem=NO))
    place = "resourceGroups/rg-batch/providers/Microsoft.ContainerService/managedClusters/c1"
    await failed(harness, await delete(replica), Reason.PERMISSION, "could not be removed", f"{place}")
    left = await cluster(harness)
    assert left.state is ClusterState.FAILED
    assert "AuthorizationFailed" in left.detail
    await harness.succeeded(await delete(replica))
    nothing_of_ours(harness)


@with_harness
async def test_an_abort_that_is_refused_only_makes_the_undoing_longer(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    harness.arm.faults.add(Fault(on=Verb.ABORT, problem=NO, times=99))
    operation = await create(replica)
    await harness.pass_time(30.0)
    await replica.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    nothing_of_ours(harness)


@with_harness
async def test_a_role_that_can_not_be_taken_back_is_named_and_the_rest_is_removed(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    (kept,) = harness.arm.assignments
    harness.arm.faults.add(Fault(on=Verb.DELETE_ASSIGNMENT, problem=NO, times=99))
    gone = await harness.succeeded(await delete(replica))
    assert f"role assignment {kept} (AcrPull) on {REGISTRY} is left" in gone.result
    assert not harness.arm.clusters
    assert not harness.arm.groups


@with_harness
async def test_a_role_that_is_left_is_named_also_where_the_cluster_can_not_be_removed(
    harness: Harness,
) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    harness.arm.faults.add(Fault(on=Verb.DELETE_ASSIGNMENT, problem=NO))
    harness.arm.faults.add(Fault(on=Verb.DELETE_CLUSTER, problem=NO))
    left = f"(AcrPull) on {REGISTRY} is left"
    await failed(harness, await delete(replica), Reason.PERMISSION, "could not be removed", left)
    record = await cluster(harness)
    assert left in record.roles_left and left in record.detail
    gone = await harness.succeeded(await delete(replica))
    assert (gone.result, (await cluster(harness)).roles_left) == ("", "")
    nothing_of_ours(harness)


@with_harness
async def test_a_role_that_was_refused_once_is_taken_back_at_the_end(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    await harness.succeeded(await create(replica))
    harness.arm.faults.add(Fault(on=Verb.DELETE_ASSIGNMENT, problem=NO))
    assert (await harness.succeeded(await delete(replica))).result == ""
    nothing_of_ours(harness)


@pytest.mark.parametrize("verb", [Verb.GET_CLUSTER, Verb.GET_GROUP, Verb.LIST_GROUP])
@with_harness
async def test_looks_that_are_refused_do_not_end_an_undoing(harness: Harness, verb: Verb) -> None:
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    await harness.pass_time(30.0)
    harness.arm.faults.add(Fault(on=verb, problem=NO, times=3))
    await replica.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    nothing_of_ours(harness)


# --- time ----------------------------------------------------------------------------------------


@with_harness
async def test_the_deadline_is_an_hour_and_what_is_not_ready_then_is_undone(harness: Harness) -> None:
    harness.arm.paces = Paces(create=7200.0)
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica, "c2")
    assert operation.deadline_at - operation.created_at == Limits().cluster == 3600.0
    await harness.ended(await delete(replica, "c2"))
    await batch(harness, provision_timeout=300.0)
    ended = await harness.ended(await create(replica))
    assert (ended.ended_at or 0.0) - ended.created_at > 300.0
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert "step 3/5" in ended.verdict.message
    nothing_of_ours(harness)


@with_harness
async def test_a_timeout_that_was_named_is_hard(harness: Harness) -> None:
    await batch(harness)
    operation = await create(await harness.replica(), timeout=60.0)
    assert operation.deadline_source == HARD
    await failed(harness, operation, Reason.DEADLINE_EXCEEDED)
    nothing_of_ours(harness)


@with_harness
async def test_a_server_that_was_away_past_the_deadline_finds_the_cluster_ready(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    await harness.pass_time(30.0)
    await replica.life.die()
    await harness.pass_time(2 * Limits().cluster)
    await harness.replica()
    await harness.succeeded(operation)


@with_harness
async def test_azure_being_away_fails_no_operation(harness: Harness) -> None:
    await batch(harness, provision_timeout=120.0)
    harness.arm.faults.add(Fault(on=Verb.GET_CLUSTER, problem=BROKEN, skip=3, times=8))
    operation = await create(await harness.replica())
    await harness.pass_time(200.0)
    assert not (await harness.operation(operation.id)).ended
    await harness.succeeded(operation)


@with_harness
async def test_a_group_that_is_made_elsewhere_in_that_very_moment_is_taken_as_it_is(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()

    async def another_write_is_quicker() -> None:
        harness.arm.put_group("rg-batch", "northeurope", {"theirs": "yes"})

    replica.interceptor.before("azure.make_group", another_write_is_quicker)
    await harness.succeeded(await create(replica))
    group = harness.arm.groups["rg-batch"]
    assert (group.region, group.tags) == ("northeurope", {"theirs": "yes"})
    assert not harness.arm.changed


@with_harness
async def test_two_clusters_that_make_their_group_at_once_ask_for_the_same(harness: Harness) -> None:
    harness.arm.paces = replace(harness.arm.paces, group_visible=5.0)
    await batch(harness)
    replica = await harness.replica()
    first, second = await create(replica, "c1"), await create(replica, "c2")
    await harness.succeeded(first)
    await harness.succeeded(second)
    assert harness.arm.calls.count(Verb.PUT_GROUP) == 2
    assert not harness.arm.changed
    await harness.succeeded(await delete(replica, "c1"))
    await harness.succeeded(await delete(replica, "c2"))
    nothing_of_ours(harness)


# --- two who ask, and what is refused ------------------------------------------------------------


@with_harness
async def test_a_second_create_attaches_to_the_first_or_is_refused(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    first = await create(replica)
    assert (await create(replica, "C1")).id == first.id
    with pytest.raises(ClusterExists, match="it is being made"):
        await create(replica, timeout=60.0)
    await harness.succeeded(first)
    with pytest.raises(ClusterExists, match="it is ready"):
        await create(replica)
    going = await delete(replica)
    assert (await delete(replica)).id == going.id
    with pytest.raises(ClusterExists, match="it is being deleted"):
        await create(replica)
    with pytest.raises(NotCancellable, match="always runs to its end"):
        await replica.cancel(going.id)
    await harness.succeeded(going)
    with pytest.raises(NotFound):
        await delete(replica)
    assert harness.arm.calls.count(Verb.PUT_CLUSTER) == 1


@with_harness
async def test_with_the_first_step_of_an_undo_its_token_is_forgotten(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    for name, doomed in (("c1", None), ("c2", QUOTA)):
        harness.arm.next_problem = doomed
        operation = await create(replica, name)
        await harness.pass_time(10.0)
        made = await cluster(harness, name)
        assert await harness.store.clusters.token(made.id) is not None
        if doomed is None:
            await delete(replica, name)
        while (await cluster(harness, name)).stage == made.stage:
            await harness.pass_time(1.0)
        assert await harness.store.clusters.token(made.id) is None
        await harness.ended(operation)


@with_harness
async def test_deleting_what_is_being_made_cancels_it(harness: Harness) -> None:
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    await harness.pass_time(30.0)
    assert (await delete(replica)).id == operation.id
    ended = await harness.ended(operation)
    assert ended.status is Status.CANCELLED
    assert Verb.ABORT in harness.arm.calls
    labels = [each.label for each in await published(harness, ended) if "Undoing" in each.label]
    assert list(dict.fromkeys(label.split(" · ")[0] for label in labels)) == [
        f"Undoing {number}/4" for number in (1, 2, 3, 4)
    ]
    assert ended.progress is not None
    assert (ended.progress.step, ended.progress.phase) == (3, "arm_create_or_update")
    nothing_of_ours(harness)


@pytest.mark.parametrize(("lag", "aborts"), [(15.0, True), (400.0, False)])
@with_harness
async def test_a_cluster_that_becomes_visible_after_the_cancel_is_removed_too(
    harness: Harness, lag: float, aborts: bool
) -> None:
    """However late: what was never seen is found in its group."""

    harness.arm.paces = Paces(cluster_visible=lag, delete=5.0, group_delete=5.0)
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    while not harness.arm.clusters:
        await harness.pass_time(1.0)
    await replica.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    assert (Verb.ABORT in harness.arm.calls) is aborts
    nothing_of_ours(harness)


@with_harness
async def test_a_cluster_of_another_that_has_the_name_is_kept_with_its_group(harness: Harness) -> None:
    harness.arm.paces = Paces(cluster_visible=400.0)
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    while not harness.arm.clusters:
        await harness.pass_time(1.0)
    theirs = next(iter(harness.arm.clusters.values()))
    theirs.asked = replace(theirs.asked, tags={})
    await replica.cancel(operation.id)
    assert "was kept: it has no tag of this installation" in (await harness.ended(operation)).result
    assert harness.arm.clusters and harness.arm.groups


@with_harness
async def test_a_group_that_becomes_visible_after_the_cancel_is_removed_too(harness: Harness) -> None:
    harness.arm.paces = Paces(group_visible=25.0, group_delete=5.0)
    await batch(harness)
    replica = await harness.replica()
    operation = await create(replica)
    await harness.pass_time(5.0)
    assert harness.arm.groups
    await replica.cancel(operation.id)
    assert (await harness.ended(operation)).status is Status.CANCELLED
    nothing_of_ours(harness)


@with_harness
async def test_a_stored_size_that_this_server_does_not_know_is_listed_and_refused_where_it_is_used(
    harness: Harness,
) -> None:
    """As after an upgrade whose table of sizes lacks it."""
    there = await batch(harness, pools=(SPEC.pools[0], replace(SPEC.pools[1], vm_size="Standard_X4s_v5")))
    replica = await harness.replica()
    assert there in await harness.store.templates()
    assert await harness.store.template("batch") == there
    with pytest.raises(InvalidRequest, match=r"pools\[1\].vm_size.*no sizes of family X"):
        await create(replica)
    with pytest.raises(InvalidRequest, match=r"pools\[1\].vm_size"):
        await replica.plane.templates.apply(there.spec)
    assert not harness.arm.calls


@with_harness
async def test_what_can_not_work_is_refused_before_any_call(harness: Harness) -> None:
    await batch(harness)
    await harness.template()
    replica = await harness.replica()
    with pytest.raises(InvalidRequest, match="it makes nodes, not clusters"):
        await replica.ask(replica.plane.clusters.create(_request("ci")))
    with pytest.raises(NotFound):
        await replica.ask(replica.plane.clusters.create(_request("unknown")))
    with pytest.raises(InvalidRequest, match="it makes clusters, not nodes"):
        await replica.ask(replica.plane.desk.provision(ProvisionRequest(template="batch", count=1, run="r")))
    harness.clusters.azure.configured = False
    with pytest.raises(InvalidRequest, match="no credentials"):
        await create(replica)
    assert harness.arm.calls == []
    assert await harness.of_kind(Kind.CLUSTER_CREATE) == []


def _request(template: str) -> ClusterCreateRequest:
    return ClusterCreateRequest(name="c1", template=template)


def test_the_simulated_azure_notes_what_must_never_happen() -> None:
    arm = Arm(lambda: 0.0)
    arm.put_group("g", "here", {"owner": "us"})
    arm.put_group("g", "here", {"owner": "us"})
    assert arm.changed == []
    arm.put_group("g", "here", {"owner": "them"})
    assert arm.changed == ["group g"]
