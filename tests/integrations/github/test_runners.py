"""Names of runners, places and labels; when a run is over."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Reuse, TemplateSpec
from muster.integrations.github.requests import ATTEMPT_MOST, LABEL_MAX, WORKFLOW, Workflow, default_label
from muster.integrations.github.runners import (
    LABELS_MOST,
    RunnerSpec,
    RunStatus,
    Scope,
    WorkflowRun,
    assignment_of,
    runner_name,
    scope_of,
)
from muster.integrations.github.runtime import ephemeral
from muster.integrations.github.tables import TEMPLATE

RUN: dict[str, Any] = {"repository": "acme/shop", "run_id": 7, "attempt": 1, "label": "7-1"}


def test_a_runner_s_name_tells_its_assignment_to_its_own_installation_alone() -> None:
    name = runner_name("inst-1", AssignmentId("as-9"))
    assert len(runner_name("inst-" + "x" * 18, AssignmentId("as-" + "x" * 18))) <= 64
    assert assignment_of("inst-1", name) == "as-9"
    for other in ("inst-2", "inst-", "inst-11", "inst-1-as"):
        assert assignment_of(other, name) in (None, "9", "1-as-9") and assignment_of(other, name) != "as-9"
    for strange in ("", "laptop", "muster-inst-1-", "muster-inst-1", "Muster-inst-1-as-9"):
        assert assignment_of("inst-1", strange) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("repository", bad) for bad in ("", "shop", "acme/", "/shop", "a/b/c", "acme/..", "acme/sh op", 3)),
        *(("run_id", bad) for bad in (0, -1, "7", True, 1 << 63)),
        *(("attempt", bad) for bad in (0, ATTEMPT_MOST + 1, 1.0)),
        *(("label", bad) for bad in ("", "a,b", "a b", "-a", "x" * (LABEL_MAX + 1), 3)),
    ],
)
def test_a_workflow_that_can_t_be_is_refused_with_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Workflow(**{**RUN, field: value})
    assert refused.value.field == f"workflow.{field}"


def test_a_request_for_a_workflow_is_named_after_its_attempt() -> None:
    workflow = Workflow(**RUN)
    asked = ProvisionRequest(template="ci", count=1, run="acme/shop/7-1", tables={"workflow": workflow})
    assert asked.run == workflow.run and WORKFLOW.of(asked) == workflow
    assert WORKFLOW.whole(asked) == {**RUN, "label": workflow.label}
    with pytest.raises(InvalidRequest, match="must be acme/shop/7-1, the run of its workflow"):
        WORKFLOW.whole(replace(asked, run="acme/shop/7-2"))
    with pytest.raises(InvalidRequest, match="there is no atempt; did you mean attempt"):
        WORKFLOW.whole(replace(asked, tables={"workflow": {**RUN, "atempt": 1}}))
    with pytest.raises(InvalidRequest, match="is for the runtime github"):
        WORKFLOW.check(asked, TemplateSpec(name="ci", provider="cloud"))
    assert default_label(7, 2) == "7-2"


def test_where_runners_belong_is_said_by_the_template_or_the_workflow() -> None:
    workflow = Workflow(**RUN)
    assert scope_of(RunnerSpec(), None) is None
    assert str(scope_of(RunnerSpec(), workflow)) == "acme/shop"
    assert str(scope_of(RunnerSpec(scope="acme"), workflow)) == "acme"
    assert scope_of(RunnerSpec(scope="acme/web"), None) == Scope(owner="acme", repository="web")
    enterprise = scope_of(RunnerSpec(scope="enterprises/big", group="gpu"), None)
    assert enterprise == Scope(owner="big", enterprise=True)
    assert str(enterprise) == "enterprises/big"


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "a b"},
        {"scope": "-acme"},
        {"scope": "acme/shop/x"},
        {"scope": "acme/shop", "group": "big"},
        {"labels": ("a,b",)},
        {"labels": ("a",) * (LABELS_MOST + 1)},
        {"ephemeral": "yes"},
    ],
)
def test_a_runner_that_can_t_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot accept runner\."):
        RunnerSpec(**fields)


def test_runners_are_ephemeral_where_nodes_are_never_reused() -> None:
    def spec(**fields: Any) -> TemplateSpec:
        return TemplateSpec(name="ci", provider="process", runtime="github", **fields)

    assert not ephemeral(spec())
    assert ephemeral(spec(reuse=Reuse.NEVER))
    assert not ephemeral(spec(reuse=Reuse.NEVER, tables={"runner": RunnerSpec(ephemeral=False)}))
    for reuse in (Reuse.SAME_OWNER, Reuse.ALWAYS):
        with pytest.raises(InvalidRequest, match="must be never: the machine of an ephemeral runner"):
            TEMPLATE.whole(spec(reuse=reuse, tables={"runner": RunnerSpec(ephemeral=True)}))


@pytest.mark.parametrize(
    ("latest", "status", "asked", "over"),
    [
        (1, RunStatus.ACTIVE, 1, False),
        (1, RunStatus.COMPLETED, 1, True),
        (2, RunStatus.ACTIVE, 1, True),
        (2, RunStatus.ACTIVE, 2, False),
        (1, RunStatus.COMPLETED, 2, False),
    ],
)
def test_an_attempt_is_over_when_it_completed_or_a_later_one_began(
    latest: int, status: RunStatus, asked: int, over: bool
) -> None:
    run = WorkflowRun(repository="acme/shop", run_id=7, attempt=latest, status=status)
    assert run.is_over(asked) is over
