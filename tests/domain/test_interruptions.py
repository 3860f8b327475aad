"""Machines that their provider takes back: what becomes of the node, and by when."""

import pytest

from muster.domain import deadlines
from muster.domain import node as nodes
from muster.domain.deadlines import DeadlineContext, Limits, Overdue, Watch
from muster.domain.errors import IllegalTransition
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.release_decisions import after_detach
from muster.domain.template import Template, TemplateSpec
from tests.domain.builders import NOW, node

SPEC = TemplateSpec(name="web", provider="simulated")
ENDS = NOW + 120.0
USED = (NodeState.RUNNING, NodeState.RELEASING)
DEADLINES = [(ENDS + 1, ENDS), (ENDS, ENDS), (ENDS - 1, ENDS - 1), (None, ENDS)]


def judged(found: Node, now: float) -> object:
    watch = Watch(since=0.0)
    at = DeadlineContext(
        operation=None, template=SPEC, advanced_at=None, watch=watch, now=now, limits=Limits()
    )
    return deadlines.judge(found, at)


@pytest.mark.parametrize("state", USED)
@pytest.mark.parametrize(("own", "holds"), DEADLINES)
def test_its_time_ends_with_the_machine_unless_it_ended_before(
    state: NodeState, own: float | None, holds: float
) -> None:
    change = nodes.interrupted(node(state, deadline_at=own), now=NOW, ends_at=ENDS)
    assert (change.after.deadline_at, change.after.drain) == (holds, True)
    assert "in 120 s" in change.detail
    assert judged(change.after, holds - 1) is None
    assert judged(change.after, holds) == Overdue(reason=Reason.INTERRUPTED, fails=False)


@pytest.mark.parametrize("state", [each for each in NodeState if each not in USED])
def test_only_what_is_used_can_use_the_notice(state: NodeState) -> None:
    with pytest.raises(IllegalTransition):
        nodes.interrupted(node(state), now=NOW, ends_at=ENDS)


def test_a_node_that_is_given_back_in_time_goes_to_no_other_run() -> None:
    running = nodes.interrupted(node(NodeState.RUNNING), now=NOW, ends_at=ENDS).after
    released = nodes.release(running, now=NOW + 1, deadline_at=NOW + 100).after
    template = Template(spec=SPEC, revision=released.revision, applied_at=NOW)
    ended = after_detach(released, template, now=NOW + 2, due_at=None).after
    assert (ended.state, ended.reason) == (NodeState.TERMINATING, Reason.INTERRUPTED)


def test_before_it_was_heard_a_machine_lives_as_long_as_its_boot_may_take() -> None:
    limits = Limits()
    longest = deadlines.max_boot(SPEC, limits)
    expected = longest + SPEC.rescue_window + deadlines.DEAD_MAN_GRACE
    assert deadlines.first_dead_man(SPEC, limits) == expected
