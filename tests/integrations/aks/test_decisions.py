"""What becomes of a cluster next, on both sides of each limit."""

from dataclasses import replace

import pytest

from muster.domain.cluster import CLUSTER_TAG, INSTALLATION_TAG
from muster.domain.cluster_decisions import Done, Fail
from muster.domain.errors import Refused, Uncertain
from muster.domain.ids import ClusterId
from muster.domain.reasons import Reason
from muster.integrations.aks.decisions import (
    GROUP_WAIT,
    PRINCIPAL_WAIT,
    SURPRISE,
    Act,
    Later,
    build,
    clear,
    ensure_group,
    group_is_new,
    group_tags,
    made_group,
    prepare,
    principal_lost,
    remove,
    stop,
)
from muster.integrations.aks.plan import assignment_name, principal_for
from muster.integrations.aks.sight import Group, PoolSight, Sight
from muster.integrations.aks.spec import AksRole, AzureRole
from muster.integrations.aks.steps import Stage
from tests.domain.test_cluster_decisions import CLUSTER, NOW, OURS, THEM, US, at, reason
from tests.harness.azure import REGISTRY, ROLES

BUILT = Sight(tags=OURS, state="Succeeded", power="Running", pools=(PoolSight(name="p", state="Succeeded"),))


# --- making --------------------------------------------------------------------------------------


def test_a_name_is_free_ours_or_taken() -> None:
    assert prepare(at(), None) == prepare(at(), BUILT) == Done()
    assert reason(prepare(at(), replace(BUILT, tags={}))) is Reason.NAME_TAKEN
    assert reason(prepare(at(), replace(BUILT, tags={**OURS, CLUSTER_TAG: "cl-2"}))) is Reason.NAME_TAKEN
    assert reason(prepare(at(late=True), None)) is Reason.DEADLINE_EXCEEDED


def test_a_group_is_made_waited_for_or_taken_as_it_is() -> None:
    assert ensure_group(at(), None) == Act()
    assert ensure_group(at(), Group(region="westeurope", state="Succeeded")) == Done()
    assert ensure_group(at(), Group(region="WestEurope")) == Done()
    assert isinstance(ensure_group(at(), Group(region="westeurope", state="Deleting")), Later)
    assert isinstance(ensure_group(at(), Group(region="westeurope", state="Updating")), Later)
    elsewhere = ensure_group(at(), Group(region="northeurope", state="Succeeded"))
    assert isinstance(elsewhere, Done) and "northeurope" in elsewhere.note
    for group in (None, Group(region="x", state="Deleting"), Group(region="x", state="Updating")):
        assert reason(ensure_group(at(late=True), group)) is Reason.DEADLINE_EXCEEDED


def test_it_is_built_when_cluster_pools_and_power_say_so_however_late() -> None:
    for late in (False, True):
        assert build(at(late=late), BUILT, None) == Done()
    for other in (
        replace(BUILT, state="Creating"),
        replace(BUILT, state=""),
        replace(BUILT, power="Stopped"),
        replace(BUILT, power=""),
        replace(BUILT, pools=(PoolSight(name="p", state="Creating"),)),
    ):
        assert build(at(), other, True) == Later()
        assert reason(build(at(late=True), other, True)) is Reason.DEADLINE_EXCEEDED


def test_it_is_asked_for_only_if_nothing_is_seen_and_nothing_was_accepted() -> None:
    assert build(at(), None, None) == Act()
    for accepted in (True, False):
        assert build(at(), None, accepted) == Later()
    assert build(at(), replace(BUILT, state="Creating"), None) == Later()


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
    assert build(at(), replace(broken, state="Creating", problem=None), None) == Later()
    assert reason(build(at(), replace(BUILT, tags={}), None)) is Reason.NAME_TAKEN


@pytest.mark.parametrize(("waited", "lost"), [(-1.0, False), (0.0, True), (1.0, True)])
def test_a_principal_is_waited_for_a_minute(waited: float, lost: bool) -> None:
    since = NOW - PRINCIPAL_WAIT - waited
    assert (principal_lost(at(), Uncertain("x"), since=since) is not None) is lost


def test_networks_are_for_the_cluster_and_the_rest_for_its_nodes() -> None:
    known = replace(CLUSTER, principal="p", kubelet="k")
    assert [principal_for(role, known) for role in ROLES] == ["k", "k", "p"]
    assert principal_for(ROLES[0], replace(known, kubelet="")) == "p"


# --- taking away ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "acts"),
    [("Creating", True), ("Updating", True), ("", True), ("Canceling", False), ("Deleting", False)]
    + [(each, False) for each in ("Succeeded", "Failed", "Canceled")],
)
def test_only_what_runs_is_stopped(state: str, acts: bool) -> None:
    decision = stop(at(), replace(BUILT, state=state))
    assert decision == (Act() if acts else Done())
    assert stop(at(), replace(BUILT, state=state, tags={})) == Done()


def test_only_what_is_ours_is_deleted_and_only_once() -> None:
    assert remove(at(), BUILT) == Act()
    for state in ("Deleting", "Canceling"):
        assert remove(at(), replace(BUILT, state=state)) == Later()
    foreign = remove(at(), replace(BUILT, tags={}))
    assert isinstance(foreign, Done) and "was kept" in foreign.note


@pytest.mark.parametrize(
    ("ago", "answered", "waits"),
    [(SURPRISE - 1, False, True), (SURPRISE, False, False), (SURPRISE + 1, False, False), (0.0, True, False)],
)
def test_what_was_not_answered_may_still_come_for_a_minute(ago: float, answered: bool, waits: bool) -> None:
    asked = at(asked_at=NOW - ago, answered=answered)
    assert isinstance(stop(asked, None), Later) is waits
    assert isinstance(remove(asked, None), Later) is waits
    assert stop(at(), None) == Done()
    assert remove(at(), None) == Done()


@pytest.mark.parametrize("ago", [GROUP_WAIT - 1, GROUP_WAIT])
def test_a_group_that_was_seen_may_be_unknown_elsewhere_for_two_minutes(ago: float) -> None:
    assert group_is_new(at(stage=Stage.CREATING.value, stage_at=NOW - ago)) is (ago < GROUP_WAIT)


@pytest.mark.parametrize("ago", [SURPRISE - 1, SURPRISE])
def test_a_group_that_was_asked_for_may_still_come_for_a_minute(ago: float) -> None:
    waits = ago < SURPRISE
    assert isinstance(clear(at(group_asked_at=NOW - ago), None, (), ()), Later) is waits
    seen = at(group_asked_at=NOW - ago, asked_at=NOW - 1)
    assert clear(seen, None, (), ()) == Done()


def test_a_group_goes_only_if_it_is_ours_empty_and_meant_for_no_other_cluster() -> None:
    group = Group(region="westeurope", state="Succeeded", tags=group_tags(US))
    mine = at().place.cluster_id
    assert clear(at(), group, (), ()) == Act()
    assert isinstance(clear(at(), group, (mine.upper(),), ()), Later)
    assert isinstance(clear(at(), replace(group, state="Deleting"), (), ()), Later)
    for kept in (
        clear(at(), replace(group, tags={}), (), ()),
        clear(at(), replace(group, tags=group_tags(THEM)), (), ()),
        clear(at(), replace(group, tags={INSTALLATION_TAG: US}), (), ()),
        clear(at(), replace(group, tags=OURS), (), ()),
        clear(at(), group, (mine, "/another"), ()),
        clear(at(), group, (), ("c2",)),
    ):
        assert isinstance(kept, Done) and "was kept" in kept.note


# --- names and tags ------------------------------------------------------------------------------


def test_a_groups_tags_tell_who_made_it() -> None:
    assert made_group(group_tags(US), US) and not made_group(OURS, US)


def test_an_assignments_name_is_a_uuid_that_depends_on_cluster_role_and_scope_alone() -> None:
    wanted = AksRole(role=AzureRole.ACR_PULL, scope=REGISTRY)
    name = assignment_name(CLUSTER, wanted)
    assert name == assignment_name(replace(CLUSTER, version=9), replace(wanted, scope=REGISTRY.upper()))
    assert name != assignment_name(replace(CLUSTER, id=ClusterId("cl-2")), wanted)
    assert name != assignment_name(CLUSTER, replace(wanted, scope=f"{REGISTRY}2"))
    assert [len(part) for part in name.split("-")] == [8, 4, 4, 4, 12]
    assert (name[14], name[19]) == ("8", "a")
