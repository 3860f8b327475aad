"""What a provision does when time, loss and silence meet."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster.domain.deadlines import EXTENSION, attach_timeout
from muster.domain.launch import LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status
from muster.domain.provisioning import Bury, GiveUp, Prolong, Wait, decide, waiting_for
from muster.domain.reasons import Reason
from tests.domain.builders import (
    LIMITS,
    NOW,
    SMALLEST,
    attached,
    launch,
    node,
    operation,
    provision,
    situation,
)

DEAD = LIMITS.stale_after + LIMITS.dead_after
SETTLED = launch(LaunchState.SETTLED)


def test_a_boot_that_was_given_time_gives_it_to_the_provision() -> None:
    held = [node(n=n, deadline_at=NOW + 600, deadline_source=EXTENSION) for n in (1, 2, 3)]
    at = situation(held, [SETTLED])
    assert decide(at) == Prolong(until=NOW + 600 + attach_timeout(at.template.spec))


def test_a_loss_is_told_in_the_node_s_own_words() -> None:
    lost = node(NodeState.TERMINATING, reason=Reason.BOOT_STALLED, detail="301 s without a sign of advance")
    action = decide(situation([lost], [SETTLED]))
    assert isinstance(action, GiveUp)
    assert action.verdict.node_id == lost.id
    assert action.verdict.message == (
        f"node {lost.id} was lost before hand-over: 301 s without a sign of advance"
    )


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_silence_counts_only_while_somebody_listened(side: float) -> None:
    held = [attached(n, attached_at=NOW - 10 * DEAD) for n in (1, 2, 3)]
    quiet = situation(held, [SETTLED], seen={each.id: NOW - 10 * DEAD for each in held})
    at = replace(quiet, watched_since=NOW - DEAD - side)
    assert decide(at) == (Bury(nodes=tuple(held)) if side > 0 else Wait())


def test_who_was_never_heard_is_neither_fresh_nor_dead_before_its_time() -> None:
    held = [attached(n, attached_at=NOW - DEAD) for n in (1, 2, 3)]
    assert decide(situation(held, [SETTLED], seen={"another": NOW})) == Wait()
    later = [replace(each, attached_at=NOW - DEAD - SMALLEST) for each in held]
    assert decide(situation(later, [SETTLED], seen={"another": NOW})) == Bury(nodes=tuple(later))


# --- in words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "doing"), [("apt install", "apt install"), ("", "boot script")])
def test_the_latest_of_the_extended_boots_is_named(step: str, doing: str) -> None:
    held = [
        node(n=1, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=2, deadline_at=NOW + 120, deadline_source=EXTENSION, phase="boot_script", step=step),
        node(n=3, deadline_at=NOW + 999, booted_at=NOW, deadline_source=EXTENSION),
    ]
    until = datetime.fromtimestamp(NOW + 120, UTC)
    assert waiting_for(situation(held, [SETTLED])) == (
        "waiting for 2 nodes to boot and 1 node to attach"
        f"; node-2 is still at {doing}, deadline extended to {until:%H:%M:%S} UTC"
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=["first", "last"])
def test_of_boots_that_were_given_the_same_time_the_last_by_id_is_named(order: tuple[int, ...]) -> None:
    held = [
        node(n=1, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=2, deadline_at=NOW + 60, deadline_source=EXTENSION, phase="joined"),
        node(n=3, deadline_at=NOW + 999, deadline_source="template", phase="boot_script"),
    ]
    until = datetime.fromtimestamp(NOW + 60, UTC)
    assert waiting_for(situation([held[n] for n in order], [SETTLED])) == (
        f"waiting for 3 nodes to boot; node-2 is still at joined, deadline extended to {until:%H:%M:%S} UTC"
    )


def test_a_boot_that_was_given_no_more_time_is_not_named() -> None:
    held = [node(n=n, deadline_at=NOW + 60, deadline_source="template", phase="joined") for n in (1, 2, 3)]
    assert waiting_for(situation(held, [SETTLED])) == "waiting for 3 nodes to boot"


def test_what_is_paused_says_so_and_what_it_waits_for() -> None:
    held = [attached(n) for n in (1, 2, 3)]
    at = replace(situation(held, [SETTLED]), paused=True)
    assert waiting_for(at) == "paused by an operator: waiting for fresh heartbeats of all nodes"


def test_a_provision_in_the_queue_says_how_many_are_ahead() -> None:
    queued = operation(request=provision(), status=Status.QUEUED, queued_since=NOW - 5)
    at = situation(op=queued, ahead=4)
    assert waiting_for(at) == "waiting for room under the caps, 4 ahead in the queue"
    tried = situation([node()], op=replace(queued, status=Status.RUNNING))
    assert waiting_for(tried) == "waiting for 2 of 3 nodes"
