import pytest

from muster.domain.cluster import ClusterState
from muster.domain.command import CommandState
from muster.domain.event_titles import title_of
from muster.domain.events import Entity
from muster.domain.health import Health
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import Fact, Verb
from muster.domain.node import RENEWED
from muster.domain.operation import OperationEvent
from muster.integrations.aks.steps import STEPS

PAST = (
    "ed",
    "left",
    "lost",
    "kept warm",
    "became ready",
    "became degraded",
    "went offline",
    "started up",
    "taken over",
    "handed over",
    "set to terminate",
)
"""How a title in the past tense ends, or reads."""
NAMES = [
    *((Entity.NODE, name) for name in (*Verb, *Fact, RENEWED, "rescued")),
    *((Entity.HEALTH, name) for name in Health),
    *((Entity.LAUNCH, name) for name in LaunchState),
    *((Entity.COMMAND, name) for name in CommandState),
    *((Entity.OPERATION, name) for name in OperationEvent),
    *(
        (Entity.CLUSTER, name)
        for name in (*ClusterState, *(step.stage for steps in (STEPS.create, STEPS.delete) for step in steps))
    ),
]


@pytest.mark.parametrize(("entity", "name"), NAMES, ids=str)
def test_every_event_is_told_in_the_past_tense(entity: Entity, name: str) -> None:
    assert title_of(entity, name).endswith(PAST)


def test_an_event_that_has_no_title_of_its_own_is_told_by_its_name() -> None:
    assert title_of(Entity.INSTALLATION, "token_added") == "token added"
    assert title_of(Entity.NODE, "from_a_newer_version") == "from a newer version"
    assert title_of(Entity.CLUSTER, "a_providers_own") == "step a providers own started"
