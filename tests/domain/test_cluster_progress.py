"""How the work on a cluster is shown, whatever steps its provider has."""

from dataclasses import replace

import pytest

from muster.domain.cluster_decisions import LEARNED_FROM, as_failed, expected, shown, step_name
from muster.domain.operation import Kind
from muster.domain.progress import ON_TIME, crept, percent_at
from muster.integrations.aks.steps import STEPS
from tests.domain.test_cluster_decisions import NOW, at


@pytest.mark.parametrize("elapsed", [0.0, 225.0, 450.0, 600.0, 4000.0])
def test_the_bar_moves_with_time_while_azure_works_but_never_fills_the_step(elapsed: float) -> None:
    situation = at(stage="creating", asked_at=NOW - elapsed)
    progress = shown(situation, message="")
    assert percent_at(progress, NOW) == pytest.approx(40.0 + 20.0 * crept(elapsed, 450.0))
    assert percent_at(progress, NOW) < percent_at(progress, NOW + 1) < 60.0
    assert progress.provider_since == situation.cluster.asked_at


def test_history_sets_the_pace_and_gives_an_end_that_is_not_made_up() -> None:
    assert expected(()) is None
    assert expected((1.0, 2.0, 90.0)) == 2.0
    assert expected([10.0] * LEARNED_FROM + [1000.0] * 100) == 10.0
    situation = at(stage="creating", asked_at=NOW - 100.0)
    assert shown(situation, message="").expected_at is None
    progress = shown(situation, message="", history=(200.0,))
    assert progress.expected_at == situation.operation.created_at + 200.0
    assert percent_at(progress, NOW) == pytest.approx(40.0 + 20.0 * ON_TIME / 2)
    assert shown(situation, message="", history=(100.0,)).expected_at is None, "it takes longer than usual"
    assert shown(at(stage="aborting"), message="", history=(200.0,)).expected_at is None


def test_an_undoing_keeps_the_step_and_counts_beside_it() -> None:
    stopped = shown(at(stage="creating", asked_at=NOW - 200), message="")
    situation = at(stage="deleting")
    situation = replace(situation, operation=replace(situation.operation, progress=stopped))
    progress = shown(situation, message="m")
    assert (progress.step, progress.percent, progress.motion) == (3, stopped.percent, None)
    assert progress.label == "Undoing 3/4 · Deleting the AKS cluster (3–8 min)"
    failed = as_failed(replace(situation, operation=replace(situation.operation, progress=progress)), "done")
    assert failed is not None
    assert (failed.step, failed.label, failed.message) == (3, STEPS.create[2].label, "done")
    assert as_failed(at(), "x") is None


def test_a_deletion_has_five_steps_of_its_own() -> None:
    for number, stage in enumerate((step.stage for step in STEPS.delete), 1):
        situation = at(stage=stage)
        situation = replace(situation, operation=replace(situation.operation, kind=Kind.CLUSTER_DELETE))
        progress = shown(situation, message="")
        assert (progress.step, progress.label) == (number, STEPS.delete[number - 1].label)
        assert (progress.percent == 100.0) is (stage == "gone")
        assert (progress.motion is None) is (stage == "gone")
        assert bool(progress.link) is (stage not in ("clearing", "gone"))


def test_a_failure_can_name_each_step_of_the_making() -> None:
    names = [step_name(STEPS, stage) for stage in ("preparing", "group", "creating", "granting")]
    assert names == [f"step {number}/5, {STEPS.create[number - 1].label}" for number in (1, 2, 3, 4)]
