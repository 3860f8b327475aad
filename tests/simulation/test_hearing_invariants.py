"""The promises about tokens and streams can break: a crafted history breaks exactly that one."""

import pytest

from muster.domain.access import hashed
from muster.domain.ids import AssignmentId, NodeId
from muster_simulation.invariants.hearing_rules import LINE, WAY
from tests.simulation.crafted_history import CraftedHistory, NodeView

NODE = NodeId("node-1")
LITTLE = 0.5
BOUND = AssignmentId("as-1")


@pytest.fixture
def history() -> CraftedHistory:
    """A node that is told to detach, and whose agent has heard nothing of it."""
    made = CraftedHistory()
    made.has_operation()
    made.has_launch()
    made.has_machine()
    made.has_node(assignment_id=BOUND)
    made.agents["i-1"] = NodeView(attached=BOUND, told_to="attach", wanted=BOUND)
    made.node("release", state="releasing", entered_at=made.now)
    assert made.broken is None
    return made


def given_up(history: CraftedHistory, *, after: float) -> str | None:
    history.now += after
    history.node("condemn", state="terminating", reason="release_timeout", entered_at=history.now)
    return history.broken


def test_a_node_that_was_told_nothing_is_not_given_up_for_doing_nothing(history: CraftedHistory) -> None:
    assert given_up(history, after=LINE + LITTLE) == "who_listens_hears"


def test_a_node_that_heard_and_did_nothing_may_be_given_up(history: CraftedHistory) -> None:
    history.agents["i-1"].told_to = "detach"
    assert given_up(history, after=LINE + LITTLE) is None


@pytest.mark.parametrize(("beyond", "broken"), [(-LITTLE, None), (LITTLE, "who_listens_hears")])
def test_each_lost_message_gives_the_next_one_time(
    history: CraftedHistory, beyond: float, broken: str | None
) -> None:
    history.agents["i-1"].losses += [history.now + 1.0, history.now + 2.0]
    assert given_up(history, after=3 * LINE + beyond) == broken


def test_a_node_that_was_cut_off_may_have_heard_nothing(history: CraftedHistory) -> None:
    history.agents["i-1"].disturbed_until = history.now + 1.0
    assert given_up(history, after=10 * LINE) is None


def test_nothing_is_heard_from_a_control_plane_that_is_away(history: CraftedHistory) -> None:
    history.presence.disturbed_at = history.now
    assert given_up(history, after=10 * LINE) is None


@pytest.mark.parametrize(("beyond", "broken"), [(-LITTLE, None), (LITTLE, "dead_tokens_name_no_node")])
def test_a_dead_token_counts_for_no_longer_than_a_look_may_take(
    history: CraftedHistory, beyond: float, broken: str | None
) -> None:
    tokens = history.judge.tokens
    tokens.admitted(NODE, hashed("first"))
    tokens.admitted(NODE, hashed("second"))
    history.now += WAY + beyond
    history.judge.recognised("second", NODE)
    assert history.broken is None
    history.judge.recognised("first", NODE)
    assert history.broken == broken


def test_a_token_that_was_good_before_is_no_better_once_it_is_dead(history: CraftedHistory) -> None:
    tokens = history.judge.tokens
    tokens.admitted(NODE, hashed("first"))
    history.judge.recognised("first", NODE)
    tokens.admitted(NODE, hashed("second"))
    history.now += WAY + LITTLE
    history.judge.recognised("first", NODE)
    assert history.broken == "dead_tokens_name_no_node"
