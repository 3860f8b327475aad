from typing import Any

import pytest

from muster.domain.desired_state import Desired, Directive, desired
from muster.domain.ids import AssignmentId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from tests.domain.builders import NOW, node

BOUND: dict[str, Any] = {"assignment_id": "as-1", "run": "run-1"}
FREE: dict[str, Any] = {"assignment_id": None, "run": None}
DIRECTIVES = {
    NodeState.CREATED: (Directive.ATTACH, Directive.STAY),
    NodeState.IDLE: (Directive.STAY, Directive.STAY),
    NodeState.CLAIMED: (Directive.ATTACH, Directive.STAY),
    NodeState.RUNNING: (Directive.ATTACH, Directive.STAY),
    NodeState.RELEASING: (Directive.DETACH, Directive.DETACH),
    NodeState.FAILED: (Directive.STAY, Directive.STAY),
    NodeState.TERMINATING: (Directive.STOP, Directive.STOP),
    NodeState.TERMINATED: (Directive.STOP, Directive.STOP),
}
"""For each state what a node with an assignment is told, and what one without."""


def _asked(record: Node) -> Desired:
    return desired(record, dead_man=12.5)


@pytest.mark.parametrize("state", NodeState)
def test_each_state_has_one_directive_with_and_one_without_an_assignment(state: NodeState) -> None:
    bound, free = _asked(node(state, **BOUND)), _asked(node(state, **FREE))
    assert (bound.directive, free.directive) == DIRECTIVES[state]
    assert (bound.dead_man, bound.version) == (12.5, node(state).version)


@pytest.mark.parametrize("state", NodeState)
def test_a_node_hears_of_its_run_only_to_attach_to_it_or_detach_from_it(state: NodeState) -> None:
    told = _asked(node(state, **BOUND))
    if told.directive in (Directive.ATTACH, Directive.DETACH):
        assert (told.assignment_id, told.run) == (AssignmentId("as-1"), "run-1")
    else:
        assert (told.assignment_id, told.run) == (None, None)


@pytest.mark.parametrize("state", NodeState)
def test_only_a_node_that_runs_has_commands(state: NodeState) -> None:
    told = _asked(node(state, **BOUND))
    assert told.commanded == (state is NodeState.RUNNING)


@pytest.mark.parametrize("state", NodeState)
def test_what_a_node_has_done_already_does_not_change_what_it_is_told(state: NodeState) -> None:
    assert _asked(node(state, attached_at=None)) == _asked(node(state, attached_at=NOW, booted_at=NOW))
