"""What an event tells, beside what its record's change says by itself."""

from dataclasses import replace

import pytest

from muster.domain.command import CommandState
from muster.domain.diagnosis import WORDS_MOST, ending
from muster.domain.events import Draft, Entity, of_command, of_health, of_node
from muster.domain.health import Health, HealthChange, HealthSource, Vitals
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import rescue
from tests.domain.builders import NOW, command, node


def test_a_change_of_health_is_told_whole_under_the_health_s_own_version() -> None:
    before = Vitals(node_id=NodeId("node-1"))
    after = replace(
        before,
        health=Health.OFFLINE,
        health_reason="no heartbeat",
        health_source=HealthSource.RECONCILE,
        health_since=NOW,
        health_version=7,
    )
    assert of_health(HealthChange(before=before, after=after, at=NOW)) == Draft(
        entity=Entity.HEALTH,
        entity_id="node-1",
        version=7,
        name="offline",
        changes={
            "health": "offline",
            "health_reason": "no heartbeat",
            "health_source": "reconcile",
            "health_since": NOW,
        },
        detail="no heartbeat",
    )


def test_a_rescue_is_told_as_one_and_not_as_a_release() -> None:
    failed = node(NodeState.FAILED)
    change = rescue(failed, now=NOW, assignment_id=AssignmentId("as-9"), deadline_at=NOW + 1, detail="late")
    told = of_node(change)
    assert (told.name, told.detail) == ("rescued", "late")


def test_a_command_s_event_carries_its_detail() -> None:
    running = command(state=CommandState.RUNNING)
    lost = replace(running, state=CommandState.LOST, detail="its node is gone", version=running.version + 1)
    assert of_command(running, lost).detail == "its node is gone"


# --- the last words of a section ------------------------------------------------------------------


def test_the_last_lines_are_kept() -> None:
    assert ending("one\ntwo\nthree", lines=2) == "two\nthree"
    assert ending("one", lines=2) == "one"


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_too_many_words_are_cut_at_the_beginning_of_a_line(more: int) -> None:
    last = "x" * (WORDS_MOST - 10)
    first = "y" * (WORDS_MOST + more - len(last) - 1)
    text = f"{first}\n{last}"
    assert len(text) == WORDS_MOST + more
    assert ending(text, lines=5) == (last if more > 0 else text)
