"""When the work on a cluster is over, and how its record may change; for a provider with steps of its own."""

from dataclasses import replace

import pytest

from muster.domain.cluster import (
    CLUSTER_TAG,
    INSTALLATION_TAG,
    Cluster,
    ClusterChange,
    changed,
    is_ours,
    tags_of,
)
from muster.domain.cluster_decisions import Fail, Situation, overdue, refused, unseen
from muster.domain.deadlines import HARD, Limits, for_operation, resolve_boot
from muster.domain.errors import IllegalTransition, Refused
from muster.domain.ids import ClusterId, InstallationId, OperationId
from muster.domain.operation import Kind, Operation
from muster.domain.reasons import Reason
from muster.domain.requests import ClusterCreateRequest
from muster.integrations.aks.steps import STEPS
from tests.harness.azure import PLAN, TEMPLATE

NOW = 10_000.0
US = InstallationId("inst-1")
THEM = InstallationId("inst-2")
CLUSTER = Cluster(
    id=ClusterId("cl-1"),
    name="c1",
    template="batch",
    revision=1,
    provider="aks",
    stage="preparing",
    created_at=NOW - 100,
    stage_at=NOW - 50,
    operation_id=OperationId("op-1"),
)
OURS = tags_of(CLUSTER, US)


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
    return Situation(
        operation=operation,
        cluster=replace(CLUSTER, **facts),  # type: ignore[arg-type]
        plan=PLAN,
        steps=STEPS,
        installation=US,
        now=NOW,
        due_at=NOW if late else NOW + 1.0,
    )


def reason(decision: object) -> Reason:
    assert isinstance(decision, Fail)
    return decision.verdict.reason


def test_a_look_that_failed_is_late_only_against_a_hard_limit() -> None:
    assert unseen(at(late=True)) is None
    assert unseen(at(source=HARD)) is None
    assert reason(unseen(at(late=True, source=HARD))) is Reason.DEADLINE_EXCEEDED
    assert overdue(at()) is None
    assert reason(overdue(at(late=True))) is Reason.DEADLINE_EXCEEDED


def test_a_refusal_keeps_its_reason_and_gets_the_providers_advice() -> None:
    advised = replace(at(), plan=replace(PLAN, advice=lambda why, said: f"{why} of {said!r}"))
    told = refused(advised, Refused("no", Reason.QUOTA))
    assert (told.verdict.reason, told.verdict.message) == (Reason.QUOTA, "no; quota of 'no'")
    plain = replace(at(), plan=replace(PLAN, advice=lambda _why, _said: ""))
    assert refused(plain, Refused("no", Reason.QUOTA)).verdict.message == "no"


def test_a_stage_is_followed_by_the_next_step_and_never_goes_back() -> None:
    for steps in (STEPS.create, STEPS.delete):
        stages = [step.stage for step in steps]
        assert [STEPS.after(stage).stage for stage in stages[:-1]] == stages[1:]
        assert [STEPS.number(stage) for stage in stages] == list(range(1, len(stages) + 1))
        assert [STEPS.ends(stage) for stage in stages] == [False] * (len(stages) - 1) + [True]
        with pytest.raises(IllegalTransition, match="no step follows"):
            STEPS.after(stages[-1])
    with pytest.raises(IllegalTransition, match="no step of the provider"):
        STEPS.number("elsewhere")
    assert [STEPS.undo(step.stage) for step in (STEPS.create[0], STEPS.delete[0])] == [False, True]


def test_a_change_moves_the_version_by_one_and_a_new_stage_begins_now() -> None:
    moved = changed(CLUSTER, now=NOW, stage="group").after
    assert (moved.stage, moved.stage_at, moved.version) == ("group", NOW, 2)
    assert changed(CLUSTER, now=NOW, stage=CLUSTER.stage).after.stage_at == CLUSTER.stage_at
    with pytest.raises(IllegalTransition, match="version"):
        ClusterChange(before=CLUSTER, after=CLUSTER, at=NOW)


def test_tags_tell_whose_it_is() -> None:
    assert is_ours(OURS, CLUSTER, US)
    assert is_ours({**OURS, "more": "x"}, CLUSTER, US)
    for other in ({}, {INSTALLATION_TAG: US}, {**OURS, INSTALLATION_TAG: "x"}, {**OURS, CLUSTER_TAG: "x"}):
        assert not is_ours(other, CLUSTER, US)


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
