"""What becomes of a cluster next, on both sides of each limit."""

from dataclasses import replace

import pytest

from muster.domain.cluster import (
    CLUSTER_TAG,
    INSTALLATION_TAG,
    Cluster,
    ClusterChange,
    ClusterState,
    RoleWanted,
    Stage,
    assignment_name,
    changed,
    group_tags,
    is_ours,
    made_group,
    tags_of,
)
from muster.domain.cluster_sight import Group, PoolSight, Sight
from muster.domain.clustering import (
    GROUP_WAIT,
    PRINCIPAL_WAIT,
    SURPRISE,
    Act,
    Fail,
    Go,
    Situation,
    Wait,
    build,
    clear,
    ensure_group,
    group_is_new,
    overdue,
    prepare,
    principal_for,
    principal_lost,
    remove,
    stop,
    unseen,
)
from muster.domain.deadlines import HARD, Limits, for_operation, resolve_boot
from muster.domain.errors import IllegalTransition, Refused, Uncertain
from muster.domain.ids import ClusterId, InstallationId, OperationId
from muster.domain.operation import Kind, Operation
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest
from muster.integrations.aks.plan import plan
from tests.stage.azure import PLAN, REGISTRY, ROLES, SPEC, TEMPLATE

NOW = 10_000.0
US = InstallationId("inst-1")
THEM = InstallationId("inst-2")
CLUSTER = Cluster(
    id=ClusterId("cl-1"),
    name="c1",
    template="batch",
    revision=1,
    provider="aks",
    created_at=NOW - 100,
    stage_at=NOW - 50,
    operation_id=OperationId("op-1"),
)
OURS = tags_of(CLUSTER, US)
BUILT = Sight(tags=OURS, state="Succeeded", power="Running", pools=(PoolSight(name="p", state="Succeeded"),))


def at(*, late: bool = False, source: str = "default", **facts: object) -> Situation:
    operation = Operation(
        id=OperationId("op-1"),
        kind=Kind.CLUSTER_CREATE,
        request=ClusterCreateRequest(name="c1", template="batch"),
        template="batch",
        run=None,
        created_at=NOW - 100,
        updated_at=NOW,
        deadline_at=NOW,
        deadline_source=source,
    )
    cluster = replace(CLUSTER, **facts)  # type: ignore[arg-type]
    due = NOW if late else NOW + 1.0
    return Situation(
        operation=operation,
        cluster=cluster,
        plan=PLAN,
        installation=US,
        now=NOW,
        due_at=due,
    )


def reason(decision: object) -> Reason:
    assert isinstance(decision, Fail)
    return decision.verdict.reason


# --- making --------------------------------------------------------------------------------------


def test_a_name_is_free_ours_or_taken() -> None:
    assert prepare(at(), None) == prepare(at(), BUILT) == Go(stage=Stage.GROUP)
    assert reason(prepare(at(), replace(BUILT, tags={}))) is Reason.NAME_TAKEN
    assert reason(prepare(at(), replace(BUILT, tags={**OURS, CLUSTER_TAG: "cl-2"}))) is Reason.NAME_TAKEN
    assert reason(prepare(at(late=True), None)) is Reason.DEADLINE_EXCEEDED


def test_a_group_is_made_waited_for_or_taken_as_it_is() -> None:
    assert ensure_group(at(), None) == Act()
    assert ensure_group(at(), Group(region="westeurope", state="Succeeded")) == Go(stage=Stage.CREATING)
    assert ensure_group(at(), Group(region="WestEurope")) == Go(stage=Stage.CREATING)
    assert isinstance(ensure_group(at(), Group(region="westeurope", state="Deleting")), Wait)
    assert isinstance(ensure_group(at(), Group(region="westeurope", state="Updating")), Wait)
    elsewhere = ensure_group(at(), Group(region="northeurope", state="Succeeded"))
    assert isinstance(elsewhere, Go) and "northeurope" in elsewhere.note
    for group in (None, Group(region="x", state="Deleting"), Group(region="x", state="Updating")):
        assert reason(ensure_group(at(late=True), group)) is Reason.DEADLINE_EXCEEDED


def test_it_is_built_when_cluster_pools_and_power_say_so_however_late() -> None:
    for late in (False, True):
        assert build(at(late=late), BUILT, None) == Go(stage=Stage.GRANTING)
    for other in (
        replace(BUILT, state="Creating"),
        replace(BUILT, state=""),
        replace(BUILT, power="Stopped"),
        replace(BUILT, power=""),
        replace(BUILT, pools=(PoolSight(name="p", state="Creating"),)),
    ):
        assert build(at(), other, True) == Wait(message="")
        assert reason(build(at(late=True), other, True)) is Reason.DEADLINE_EXCEEDED


def test_it_is_asked_for_only_if_nothing_is_seen_and_nothing_was_accepted() -> None:
    assert build(at(), None, None) == Act()
    for accepted in (True, False):
        assert build(at(), None, accepted) == Wait(message="")
    assert build(at(), replace(BUILT, state="Creating"), None) == Wait(message="")


def test_what_failed_is_told_by_the_work_then_by_the_cluster_then_by_its_pools() -> None:
    work, record = Refused("w", Reason.QUOTA), Refused("r", Reason.CAPACITY)
    broken = replace(BUILT, state="Failed", problem=record, pools=(PoolSight(name="p", state="Failed"),))
    assert reason(build(at(), broken, work)) is Reason.QUOTA
    assert reason(build(at(), broken, None)) is Reason.CAPACITY
    told = build(at(), replace(broken, problem=None), None)
    assert reason(told) is Reason.PROVIDER_ERROR
    assert isinstance(told, Fail) and "pool p is Failed" in told.verdict.message
    assert (
        reason(build(at(), replace(broken, state="Succeeded", problem=None), None)) is Reason.PROVIDER_ERROR
    )
    assert build(at(), replace(broken, state="Creating", problem=None), None) == Wait(message="")
    assert reason(build(at(), replace(BUILT, tags={}), None)) is Reason.NAME_TAKEN


def test_a_look_that_failed_is_late_only_against_a_hard_limit() -> None:
    assert unseen(at(late=True)) is None
    assert unseen(at(source=HARD)) is None
    assert reason(unseen(at(late=True, source=HARD))) is Reason.DEADLINE_EXCEEDED
    assert overdue(at()) is None
    assert reason(overdue(at(late=True))) is Reason.DEADLINE_EXCEEDED


@pytest.mark.parametrize(("waited", "lost"), [(-1.0, False), (0.0, True), (1.0, True)])
def test_a_principal_is_waited_for_a_minute(waited: float, lost: bool) -> None:
    since = NOW - PRINCIPAL_WAIT - waited
    assert (principal_lost(at(), Uncertain("x"), since=since) is not None) is lost


def test_networks_are_for_the_cluster_and_the_rest_for_its_nodes() -> None:
    known = replace(CLUSTER, principal="p", kubelet="k")
    wanted = plan("c1", replace(TEMPLATE, tables={"cluster": replace(SPEC, roles=ROLES)})).roles
    assert [principal_for(role, known) for role in wanted] == ["k", "k", "p"]
    assert principal_for(wanted[0], replace(known, kubelet="")) == "p"


# --- taking away ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "acts"),
    [("Creating", True), ("Updating", True), ("", True), ("Canceling", False), ("Deleting", False)]
    + [(each, False) for each in ("Succeeded", "Failed", "Canceled")],
)
def test_only_what_runs_is_stopped(state: str, acts: bool) -> None:
    decision = stop(at(), replace(BUILT, state=state))
    assert decision == (Act() if acts else Go(stage=Stage.REVOKING))
    assert stop(at(), replace(BUILT, state=state, tags={})) == Go(stage=Stage.REVOKING)


def test_only_what_is_ours_is_deleted_and_only_once() -> None:
    assert remove(at(), BUILT) == Act()
    for state in ("Deleting", "Canceling"):
        assert remove(at(), replace(BUILT, state=state)) == Wait(message="")
    foreign = remove(at(), replace(BUILT, tags={}))
    assert isinstance(foreign, Go) and "was kept" in foreign.note


@pytest.mark.parametrize(
    ("ago", "answered", "waits"),
    [(SURPRISE - 1, False, True), (SURPRISE, False, False), (SURPRISE + 1, False, False), (0.0, True, False)],
)
def test_what_was_not_answered_may_still_come_for_a_minute(ago: float, answered: bool, waits: bool) -> None:
    asked = at(asked_at=NOW - ago, answered=answered)
    assert isinstance(stop(asked, None), Wait) is waits
    assert isinstance(remove(asked, None), Wait) is waits
    assert stop(at(), None) == Go(stage=Stage.REVOKING)
    assert remove(at(), None) == Go(stage=Stage.CLEARING)


@pytest.mark.parametrize("ago", [GROUP_WAIT - 1, GROUP_WAIT])
def test_a_group_that_was_seen_may_be_unknown_elsewhere_for_two_minutes(ago: float) -> None:
    assert group_is_new(at(stage=Stage.CREATING, stage_at=NOW - ago)) is (ago < GROUP_WAIT)


@pytest.mark.parametrize("ago", [SURPRISE - 1, SURPRISE])
def test_a_group_that_was_asked_for_may_still_come_for_a_minute(ago: float) -> None:
    waits = ago < SURPRISE
    assert isinstance(clear(at(group_asked_at=NOW - ago), None, (), ()), Wait) is waits
    seen = at(group_asked_at=NOW - ago, asked_at=NOW - 1)
    assert clear(seen, None, (), ()) == Go(stage=Stage.GONE)


def test_a_group_goes_only_if_it_is_ours_empty_and_meant_for_nobody_else() -> None:
    group = Group(region="westeurope", state="Succeeded", tags=group_tags(US))
    mine = at().place.cluster_id
    assert clear(at(), group, (), ()) == Act()
    assert isinstance(clear(at(), group, (mine.upper(),), ()), Wait)
    assert isinstance(clear(at(), replace(group, state="Deleting"), (), ()), Wait)
    for kept in (
        clear(at(), replace(group, tags={}), (), ()),
        clear(at(), replace(group, tags=group_tags(THEM)), (), ()),
        clear(at(), replace(group, tags={INSTALLATION_TAG: US}), (), ()),
        clear(at(), replace(group, tags=OURS), (), ()),
        clear(at(), group, (mine, "/another"), ()),
        clear(at(), group, (), ("c2",)),
    ):
        assert isinstance(kept, Go) and "was kept" in kept.note


# --- the record ----------------------------------------------------------------------------------


def test_tags_tell_whose_it_is() -> None:
    assert is_ours(OURS, CLUSTER, US)
    assert made_group(group_tags(US), US) and not made_group(OURS, US)
    assert is_ours({**OURS, "more": "x"}, CLUSTER, US)
    for other in ({}, {INSTALLATION_TAG: US}, {**OURS, INSTALLATION_TAG: "x"}, {**OURS, CLUSTER_TAG: "x"}):
        assert not is_ours(other, CLUSTER, US)


def test_an_assignments_name_is_a_uuid_that_depends_on_cluster_role_and_scope_alone() -> None:
    wanted = RoleWanted(role="AcrPull", scope=REGISTRY, by_nodes=True)
    name = assignment_name(CLUSTER, wanted)
    assert name == assignment_name(replace(CLUSTER, version=9), replace(wanted, scope=REGISTRY.upper()))
    assert name != assignment_name(replace(CLUSTER, id=ClusterId("cl-2")), wanted)
    assert name != assignment_name(CLUSTER, replace(wanted, scope=f"{REGISTRY}2"))
    assert [len(part) for part in name.split("-")] == [8, 4, 4, 4, 12]
    assert (name[14], name[19]) == ("8", "a")


def test_a_stage_never_goes_back_but_for_a_deletion() -> None:
    done = replace(CLUSTER, stage=Stage.DONE, state=ClusterState.READY)
    with pytest.raises(IllegalTransition, match="go back"):
        changed(done, now=NOW, stage=Stage.GROUP)
    gone = replace(CLUSTER, stage=Stage.GONE, state=ClusterState.DELETED)
    again = changed(gone, now=NOW, stage=Stage.ABORTING, state=ClusterState.DELETING)
    assert (again.after.stage_at, again.after.version) == (NOW, 2)
    assert changed(CLUSTER, now=NOW, stage=CLUSTER.stage).after.stage_at == CLUSTER.stage_at
    with pytest.raises(IllegalTransition, match="version"):
        ClusterChange(before=CLUSTER, after=CLUSTER, at=NOW)


def test_a_clusters_time_comes_from_the_one_resolver() -> None:
    template = TEMPLATE
    limits = Limits(cluster=1234.0)
    for resolved in (
        resolve_boot(timeout=None, template=template, limits=limits),
        for_operation(Kind.CLUSTER_DELETE, template=template, limits=limits),
    ):
        assert (resolved.seconds, resolved.source) == (1234.0, "default")
    longer = replace(template, provision_timeout=5000.0)
    assert resolve_boot(timeout=None, template=longer, limits=limits).seconds == 5000.0
    assert resolve_boot(timeout=60.0, template=longer, limits=limits).source == HARD
