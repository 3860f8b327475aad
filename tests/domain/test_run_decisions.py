"""What a run does next, situation by situation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain import decisions, refill_decisions, run_decisions
from muster.domain.command import Command, CommandState
from muster.domain.deadlines import EXTENSION, HARD, attach_timeout
from muster.domain.decisions import ExtendDeadline, Finish, Wait
from muster.domain.ids import AssignmentId, NodeId, OperationId
from muster.domain.operation import Kind, Member, Operation, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.run_decisions import (
    CODES_SHOWN,
    Action,
    CancelProvision,
    Execute,
    Situation,
    SubmitProvision,
    SubmitRelease,
    decide,
    provision_key,
    release_key,
    run_of,
)
from tests.domain import test_refill_decisions
from tests.domain.builders import NOW, RUN, SMALLEST, command, modest, node, operation, provision

PENDING, RUNNING, EXITED, LOST = CommandState
MEMBERS = tuple(Member(node_id=NodeId(f"node-{n}"), assignment_id=AssignmentId(f"as-{n}")) for n in range(3))
GONE = Verdict(reason=Reason.MACHINE_GONE, message="node-1 is no more")
CAPACITY = Verdict(reason=Reason.CAPACITY, message="none left")
STOPPED = Verdict(reason=Reason.CANCELLED, message="the provision was cancelled")


def run(**fields: Any) -> Operation:
    return operation(**({"id": OperationId("op-run"), "request": RUN} | fields))


CANCELLED = run(cancel_requested_at=NOW - 1)
OVERDUE = run(deadline_at=NOW)
FAILING = run(verdict=GONE)


def made(status: Status = Status.SUCCEEDED, **fields: Any) -> Operation:
    """The run's provision."""
    given: dict[str, Any] = {"request": provision(count=3), "status": status}
    if status is Status.SUCCEEDED:
        given |= {"committed_at": NOW - 40, "members": MEMBERS, "ended_at": NOW - 39}
    return operation(**(given | fields))


def release(status: Status = Status.RUNNING, **fields: Any) -> Operation:
    given = {"id": OperationId("op-release"), "kind": Kind.RELEASE, "status": status, "created_at": NOW - 3}
    return operation(**(given | fields))


def three(*states: CommandState, **fields: Any) -> list[Command]:
    return [command(state, n, **fields) for n, state in enumerate(states)]


BOOTING = made(Status.RUNNING)
COMMITTED = made(Status.RUNNING, committed_at=NOW - 1, members=MEMBERS)
DONE = three(EXITED, EXITED, EXITED)
BUSY = three(EXITED, RUNNING, PENDING)
KILLED = [command(EXITED), *(command(EXITED, n, ended_at=NOW - 1, signal=9) for n in (1, 2))]
"""As after a release that found them running."""
ENDED = release(Status.SUCCEEDED)


def finish(status: Status, reason: Reason | None = None, result: str = "") -> tuple[Any, ...]:
    return (Finish, status, reason, result)


def shape(action: Action) -> Any:
    if isinstance(action, Finish):
        return finish(action.status, action.verdict.reason if action.verdict else None, action.result)
    if isinstance(action, Execute):
        return (Execute, *(MEMBERS.index(member) for member in action.members))
    return type(action)


def situation(
    of: Operation,
    child: Operation | None = None,
    commands: Sequence[Command] = (),
    back: Operation | None = None,
    **fields: Any,
) -> Situation:
    return Situation(operation=of, provision=child, commands=commands, release=back, now=NOW, **fields)


PLAIN = run()
TABLE: dict[str, tuple[Situation, Any]] = {
    # before there are nodes
    "new": (situation(PLAIN), SubmitProvision),
    "cancelled before it began": (situation(CANCELLED), finish(Status.CANCELLED, Reason.CANCELLED)),
    "overdue before it began": (situation(OVERDUE), finish(Status.FAILED, Reason.DEADLINE_EXCEEDED)),
    "refused before it began": (situation(FAILING), finish(Status.FAILED, Reason.MACHINE_GONE)),
    "booting": (situation(PLAIN, BOOTING), Wait),
    "cancelled while booting": (situation(CANCELLED, BOOTING), CancelProvision),
    "overdue while booting": (situation(OVERDUE, BOOTING), CancelProvision),
    "cancelled, and so is its provision": (
        situation(CANCELLED, replace(BOOTING, cancel_requested_at=NOW)),
        Wait,
    ),
    "cancelled after the commit": (situation(CANCELLED, COMMITTED), Wait),
    "being handed over": (situation(PLAIN, COMMITTED), Wait),
    # the provision did not succeed
    "no nodes": (
        situation(PLAIN, made(Status.FAILED, verdict=CAPACITY)),
        finish(Status.FAILED, Reason.CAPACITY),
    ),
    "no nodes, and cancelled meanwhile": (
        situation(CANCELLED, made(Status.FAILED, verdict=CAPACITY)),
        finish(Status.FAILED, Reason.CAPACITY),
    ),
    "cancelled with its provision": (
        situation(CANCELLED, made(Status.CANCELLED, verdict=STOPPED)),
        finish(Status.CANCELLED, Reason.CANCELLED),
    ),
    "overdue, so its provision was cancelled": (
        situation(OVERDUE, made(Status.CANCELLED, verdict=STOPPED)),
        finish(Status.FAILED, Reason.DEADLINE_EXCEEDED),
    ),
    "its provision was cancelled by a person": (
        situation(PLAIN, made(Status.CANCELLED, verdict=STOPPED)),
        finish(Status.CANCELLED, Reason.CANCELLED),
    ),
    # with nodes
    "ready": (situation(PLAIN, made()), (Execute, 0, 1, 2)),
    "partly started": (situation(PLAIN, made(), [command(RUNNING, 1)]), (Execute, 0, 2)),
    "partly started, one has ended": (situation(PLAIN, made(), [command(EXITED, 0)]), (Execute, 1, 2)),
    "busy": (situation(PLAIN, made(), BUSY), Wait),
    "done": (situation(PLAIN, made(), DONE), SubmitRelease),
    "done, one was lost": (situation(PLAIN, made(), three(EXITED, LOST, EXITED)), SubmitRelease),
    "cancelled when ready": (situation(CANCELLED, made()), SubmitRelease),
    "cancelled while busy": (situation(CANCELLED, made(), BUSY), SubmitRelease),
    "overdue while busy": (situation(OVERDUE, made(), BUSY), SubmitRelease),
    "a node was gone when its command should start": (
        situation(FAILING, made(), BUSY[:1]),
        SubmitRelease,
    ),
    "overdue, but its nodes were extended": (
        situation(OVERDUE, made(), BUSY, extended_until=NOW + SMALLEST),
        ExtendDeadline,
    ),
    "overdue, and so are its extended nodes": (
        situation(OVERDUE, made(), BUSY, extended_until=NOW),
        SubmitRelease,
    ),
    "overdue at a deadline that the caller named, which no extension passes": (
        situation(replace(OVERDUE, deadline_source=HARD), made(), BUSY, extended_until=NOW + 60),
        SubmitRelease,
    ),
    # giving back
    "giving back": (situation(PLAIN, made(), DONE, release()), Wait),
    "giving back what was cancelled": (situation(CANCELLED, made(), BUSY, release()), Wait),
    "a command appeared after the release": (situation(PLAIN, made(), BUSY[:2], release()), Wait),
    "all is well": (
        situation(PLAIN, made(), DONE, ENDED),
        finish(Status.SUCCEEDED, result="exit 0"),
    ),
    "the release failed": (
        situation(PLAIN, made(), DONE, release(Status.FAILED)),
        finish(Status.SUCCEEDED, result="exit 0"),
    ),
    "the worst exit is the result": (
        situation(
            PLAIN,
            made(),
            [command(EXITED), command(EXITED, 1, exit_code=2), command(EXITED, 2, exit_code=None, signal=9)],
            ENDED,
        ),
        finish(Status.FAILED, Reason.COMMAND_FAILED, "exit 137"),
    ),
    "a lost command counts": (
        situation(PLAIN, made(), three(EXITED, LOST, EXITED), ENDED),
        finish(Status.FAILED, Reason.COMMAND_FAILED, "exit 125"),
    ),
    "one was cut off by the run's own limit": (
        situation(PLAIN, made(), [*DONE[:2], command(LOST, 2, reason=Reason.MAX_RUNTIME)], ENDED),
        finish(Status.FAILED, Reason.MAX_RUNTIME, "exit 124"),
    ),
    "one was lost with its node": (
        situation(PLAIN, made(), [*DONE[:2], command(LOST, 2, reason=Reason.HEARTBEAT_LOST)], ENDED),
        finish(Status.FAILED, Reason.HEARTBEAT_LOST, "exit 125"),
    ),
    "cancelled": (
        situation(run(cancel_requested_at=NOW - 3), made(), KILLED, ENDED),
        finish(Status.CANCELLED, Reason.CANCELLED),
    ),
    "overdue": (
        situation(run(deadline_at=NOW - 3), made(), KILLED, ENDED),
        finish(Status.FAILED, Reason.DEADLINE_EXCEEDED),
    ),
    "cancelled before all were started": (
        situation(CANCELLED, made(), DONE[:2], ENDED),
        finish(Status.CANCELLED, Reason.CANCELLED),
    ),
    "a node was gone": (
        situation(FAILING, made(), KILLED[:1], ENDED),
        finish(Status.FAILED, Reason.MACHINE_GONE),
    ),
    "a node was gone, and giving back took too long": (
        situation(replace(FAILING, deadline_at=NOW), made(), KILLED[:1], ENDED),
        finish(Status.FAILED, Reason.MACHINE_GONE),
    ),
    "a node was gone, and it was cancelled then": (
        situation(replace(FAILING, cancel_requested_at=NOW), made(), KILLED[:1], ENDED),
        finish(Status.FAILED, Reason.MACHINE_GONE),
    ),
    # what stops a run after its commands have ended can't take their result away
    "overdue while giving back": (
        situation(OVERDUE, made(), DONE, ENDED),  # its release was submitted before NOW
        finish(Status.SUCCEEDED, result="exit 0"),
    ),
    "cancelled while giving back": (
        situation(CANCELLED, made(), DONE, ENDED),
        finish(Status.SUCCEEDED, result="exit 0"),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_situation_leads_to_one_action(name: str) -> None:
    at, wanted = TABLE[name]
    assert shape(decide(at)) == wanted


def test_the_exit_codes_of_a_failed_run_are_named_up_to_a_limit() -> None:
    failed = [command(EXITED, n, exit_code=n % 2) for n in range(2 * CODES_SHOWN + 4)]
    end = decide(situation(PLAIN, made(), failed, ENDED))
    assert isinstance(end, Finish) and end.verdict is not None
    said = f"{CODES_SHOWN + 2} of {len(failed)} commands failed: exit 1 on [1], exit 1 on [3],"
    assert end.verdict.message.startswith(said) and end.verdict.message.endswith(" and 2 more")
    one = decide(situation(PLAIN, made(), [*DONE[:2], command(EXITED, 2, exit_code=7)], ENDED))
    assert isinstance(one, Finish) and one.verdict is not None
    assert one.verdict.message == "1 of 3 commands failed: exit 7 on [2]"


def test_a_failed_provision_gives_the_run_its_own_words() -> None:
    end = decide(situation(PLAIN, made(Status.FAILED, verdict=CAPACITY)))
    assert isinstance(end, Finish)
    assert end.verdict == CAPACITY


def test_a_run_is_overdue_at_its_deadline_and_not_before() -> None:
    assert shape(decide(situation(run(deadline_at=NOW + SMALLEST), made(), BUSY))) is Wait
    assert shape(decide(situation(run(deadline_at=NOW), made(), BUSY))) is SubmitRelease


def test_the_keys_of_two_runs_and_of_their_parts_differ() -> None:
    keys = [key(OperationId(run)) for run in ("op-1", "op-2") for key in (provision_key, release_key)]
    assert len(set(keys)) == 4


def test_the_run_of_a_provision_is_known_by_its_key() -> None:
    assert run_of(provision_key(OperationId("op-1"))) == "op-1"
    others = (None, "", "mine", "op-1/provision", release_key(OperationId("op-1")), "muster/op-1/x/provision")
    assert {run_of(key) for key in others} == {None}


runs = st.sampled_from([PLAIN, CANCELLED, OVERDUE, FAILING])
commands = st.lists(st.sampled_from(CommandState), max_size=3).map(lambda states: three(*states))
releases = st.none() | st.sampled_from([release(), ENDED, release(Status.FAILED)])


@settings(modest, max_examples=300)
@given(runs, commands, releases)
def test_with_nodes_a_run_never_ends_before_they_are_given_back(
    of: Operation, known: list[Command], back: Operation | None
) -> None:
    action = decide(situation(of, made(), known, back))
    assert not isinstance(action, SubmitProvision | CancelProvision)
    if back is None:
        assert not isinstance(action, Finish)
    elif back.ended:
        assert isinstance(action, Finish)
    else:
        assert isinstance(action, Wait)


@settings(modest, max_examples=300)
@given(runs, commands, releases)
def test_nodes_are_given_back_only_when_stopped_or_done(
    of: Operation, known: list[Command], back: Operation | None
) -> None:
    if isinstance(decide(situation(of, made(), known, back)), SubmitRelease):
        assert back is None
        done = len(known) == 3 and all(each.ended for each in known)
        assert done or of is not PLAIN


@settings(modest, max_examples=300)
@given(runs, commands, releases)
def test_a_status_and_its_reason_fit_together(
    of: Operation, known: list[Command], back: Operation | None
) -> None:
    for child in (None, made(), made(Status.FAILED, verdict=CAPACITY), made(Status.CANCELLED)):
        end = decide(situation(of, child, known if child else (), back if child else None))
        if isinstance(end, Finish):
            assert (end.status is Status.SUCCEEDED) is (end.verdict is None)
            assert (end.result == "exit 0") is (end.status is Status.SUCCEEDED)
            cancelled = end.verdict is not None and end.verdict.reason is Reason.CANCELLED
            assert (end.status is Status.CANCELLED) is cancelled


def test_a_refill_whose_boots_were_given_time_is_given_it_too() -> None:
    booting = node(assignment_id=None, deadline_at=NOW + 600, deadline_source=EXTENSION)
    at = test_refill_decisions.situation([booting], [test_refill_decisions.SETTLED])
    assert refill_decisions.decide(at) == decisions.ExtendDeadline(
        until=NOW + 600 + attach_timeout(at.template.spec)
    )
    failing = replace(at.operation, verdict=test_refill_decisions.FAILED)
    assert not isinstance(refill_decisions.decide(replace(at, operation=failing)), decisions.ExtendDeadline)


def test_a_run_whose_provision_was_cancelled_by_another_ends_by_that() -> None:
    by = Verdict(reason=Reason.CANCELLED, message="cancelled by an operator")
    provision = made(Status.CANCELLED, verdict=by)
    at = run_decisions.Situation(operation=run(), provision=provision, release=None, commands=(), now=NOW)
    assert run_decisions.decide(at) == decisions.Finish(status=Status.CANCELLED, verdict=by)


def test_a_run_that_is_late_says_so() -> None:
    at = run_decisions.Situation(operation=OVERDUE, provision=None, release=None, commands=(), now=NOW)
    late = Verdict(reason=Reason.DEADLINE_EXCEEDED, message="the run did not end in time")
    assert run_decisions.decide(at) == decisions.Finish(status=Status.FAILED, verdict=late)
