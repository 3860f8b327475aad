"""The steps of AKS, and what is said and shown while they run."""

import pytest

from muster.domain.cluster_decisions import unknown
from muster.domain.progress import Tone
from muster.integrations.aks.sight import PoolSight, Sight
from muster.integrations.aks.steps import STEPS, Stage, chips, planned, spent, state_words
from tests.domain.test_cluster_decisions import NOW, at
from tests.harness.azure import SPEC


def test_the_steps_and_labels_are_those_that_were_promised() -> None:
    assert [step.label for step in STEPS.create] == [
        "Preparing the request",
        "Ensuring the resource group",
        "Creating the AKS cluster (5–10 min)",
        "Granting role assignments",
        "Cluster ready",
    ]
    assert [step.phase for step in STEPS.create] == [
        "creating_cluster",
        "ensuring_resource_group",
        "arm_create_or_update",
        "ensuring_rbac",
        "completed",
    ]
    assert len(STEPS.delete) == len(STEPS.create)


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


def test_the_state_is_said_with_as_much_as_is_known() -> None:
    asked = at(stage=Stage.CREATING.value, asked_at=NOW - 100).cluster
    assert state_words(asked, Sight(state="Creating"), now=NOW) == "AKS state: Creating · ARM 1m 40s"
    assert state_words(asked, Sight(), now=NOW) == "AKS state: unknown · ARM 1m 40s"
    assert state_words(asked, None, now=NOW) == "AKS state: not visible yet · ARM 1m 40s"
    assert state_words(asked, None, seen=False, now=NOW) == "AKS state: unknown · ARM 1m 40s"
    stopped = Sight(state="Succeeded", power="Stopped")
    assert state_words(asked, stopped, now=NOW) == "AKS state: Succeeded · power Stopped · ARM 1m 40s"
    assert (
        state_words(at(stage=Stage.CREATING.value).cluster, Sight(state="Creating"), now=NOW)
        == "AKS state: Creating"
    )


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
    assert [(part.name, part.detail) for part in planned(SPEC)] == [
        ("systempool", "1n"),
        ("blastpool", "10n"),
    ]
