"""How the work on a cluster is shown."""

from dataclasses import replace

import pytest

from muster.domain.cluster import Stage
from muster.domain.cluster_showing import (
    LEARNED_FROM,
    as_failed,
    chips,
    expected,
    planned,
    shown,
    spent,
    state_words,
    step_name,
    unknown,
)
from muster.domain.cluster_sight import PoolSight, Sight
from muster.domain.operation import Kind
from muster.domain.progress import ON_TIME, Tone, crept, percent_at
from muster.integrations.aks.plan import CREATE_STEPS, DELETE_STEPS
from tests.domain.test_clustering import NOW, at
from tests.stage.azure import PLAN


def test_the_steps_and_labels_are_those_that_were_promised() -> None:
    assert [step.label for step in CREATE_STEPS] == [
        "Preparing the request",
        "Ensuring the resource group",
        "Creating the AKS cluster (5–10 min)",
        "Granting role assignments",
        "Cluster ready",
    ]
    assert [step.phase for step in CREATE_STEPS] == [
        "creating_cluster",
        "ensuring_resource_group",
        "arm_create_or_update",
        "ensuring_rbac",
        "completed",
    ]
    assert len(DELETE_STEPS) == len(CREATE_STEPS)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0s"),
        (0, "0s"),
        (59, "59s"),
        (60, "1m 00s"),
        (100, "1m 40s"),
        (3599, "59m 59s"),
        (3600, "1h 00m"),
    ],
)
def test_time_is_said_in_few_words(seconds: float, said: str) -> None:
    assert spent(seconds) == said


@pytest.mark.parametrize("elapsed", [0.0, 225.0, 450.0, 600.0, 4000.0])
def test_the_bar_moves_with_time_while_azure_works_but_never_fills_the_step(elapsed: float) -> None:
    situation = at(stage=Stage.CREATING, asked_at=NOW - elapsed)
    progress = shown(situation, message="")
    assert percent_at(progress, NOW) == pytest.approx(40.0 + 20.0 * crept(elapsed, 450.0))
    assert percent_at(progress, NOW) < percent_at(progress, NOW + 1) < 60.0
    assert progress.provider_since == situation.cluster.asked_at


def test_history_sets_the_pace_and_gives_an_end_that_is_not_made_up() -> None:
    assert expected(()) is None
    assert expected((1.0, 2.0, 90.0)) == 2.0
    assert expected([10.0] * LEARNED_FROM + [1000.0] * 100) == 10.0
    situation = at(stage=Stage.CREATING, asked_at=NOW - 100.0)
    assert shown(situation, message="").expected_at is None
    progress = shown(situation, message="", history=(200.0,))
    assert progress.expected_at == situation.operation.created_at + 200.0
    assert percent_at(progress, NOW) == pytest.approx(40.0 + 20.0 * ON_TIME / 2)
    assert shown(situation, message="", history=(100.0,)).expected_at is None, "it takes longer than usual"
    assert shown(at(stage=Stage.ABORTING), message="", history=(200.0,)).expected_at is None


def test_an_undoing_keeps_the_step_and_counts_beside_it() -> None:
    stopped = shown(at(stage=Stage.CREATING, asked_at=NOW - 200), message="")
    situation = at(stage=Stage.DELETING)
    situation = replace(situation, operation=replace(situation.operation, progress=stopped))
    progress = shown(situation, message="m")
    assert (progress.step, progress.percent, progress.motion) == (3, stopped.percent, None)
    assert progress.label == "Undoing 3/4 · Deleting the AKS cluster (3–8 min)"
    failed = as_failed(replace(situation, operation=replace(situation.operation, progress=progress)), "done")
    assert failed is not None
    assert (failed.step, failed.label, failed.message) == (3, CREATE_STEPS[2][1], "done")
    assert as_failed(at(), "x") is None


def test_a_deletion_has_five_steps_of_its_own() -> None:
    for number, stage in enumerate(
        (Stage.ABORTING, Stage.REVOKING, Stage.DELETING, Stage.CLEARING, Stage.GONE), 1
    ):
        situation = at(stage=stage)
        situation = replace(situation, operation=replace(situation.operation, kind=Kind.CLUSTER_DELETE))
        progress = shown(situation, message="")
        assert (progress.step, progress.label) == (number, DELETE_STEPS[number - 1][1])
        assert (progress.percent == 100.0) is (stage is Stage.GONE)
        assert (progress.motion is None) is (stage is Stage.GONE)
        assert bool(progress.link) is (stage not in (Stage.CLEARING, Stage.GONE))


def test_the_state_is_said_with_as_much_as_is_known() -> None:
    asked = at(stage=Stage.CREATING, asked_at=NOW - 100)
    assert state_words(asked, Sight(state="Creating")) == "AKS state: Creating · ARM 1m 40s"
    assert state_words(asked, Sight()) == "AKS state: unknown · ARM 1m 40s"
    assert state_words(asked, None) == "AKS state: not visible yet · ARM 1m 40s"
    assert state_words(asked, None, seen=False) == "AKS state: unknown · ARM 1m 40s"
    stopped = Sight(state="Succeeded", power="Stopped")
    assert state_words(asked, stopped) == "AKS state: Succeeded · power Stopped · ARM 1m 40s"
    assert state_words(at(stage=Stage.CREATING), Sight(state="Creating")) == "AKS state: Creating"


def test_pools_are_chips_with_a_tone_for_each_state() -> None:
    tones = {
        "Succeeded": Tone.SUCCESS,
        "Creating": Tone.ACTIVE,
        "Scaling": Tone.ACTIVE,
        "Failed": Tone.DANGER,
        "Canceled": Tone.DANGER,
        "": Tone.PENDING,
    }
    made = chips([PoolSight(name="p", state=state, count=3) for state in tones])
    assert [part.tone for part in made] == list(tones.values())
    assert {part.detail for part in made} == {"3n"}
    assert made[-1].state == "unknown"
    assert {part.state for part in unknown(made)} == {"unknown"}
    assert [(part.name, part.detail) for part in planned(PLAN)] == [
        ("systempool", "1n"),
        ("blastpool", "10n"),
    ]


def test_a_failure_can_name_each_step_of_the_making() -> None:
    names = [
        step_name(CREATE_STEPS, stage)
        for stage in (Stage.PREPARING, Stage.GROUP, Stage.CREATING, Stage.GRANTING)
    ]
    assert names == [f"step {number}/5, {CREATE_STEPS[number - 1][1]}" for number in (1, 2, 3, 4)]
