"""How runs and refills end, and when they are given more time."""

from dataclasses import replace

from muster.domain import refilling, running
from muster.domain.deadlines import EXTENSION, attach_timeout
from muster.domain.operation import Status, Verdict
from muster.domain.reasons import Reason
from tests.domain import test_refilling, test_running
from tests.domain.builders import NOW, node


def test_a_refill_whose_boots_were_given_time_is_given_it_too() -> None:
    booting = node(assignment_id=None, deadline_at=NOW + 600, deadline_source=EXTENSION)
    at = test_refilling.situation([booting], [test_refilling.SETTLED])
    assert refilling.decide(at) == refilling.Prolong(until=NOW + 600 + attach_timeout(at.template.spec))
    failing = replace(at.operation, verdict=test_refilling.FAILED)
    assert not isinstance(refilling.decide(replace(at, operation=failing)), refilling.Prolong)


def test_a_run_whose_provision_was_cancelled_by_another_ends_by_that() -> None:
    by = Verdict(reason=Reason.CANCELLED, message="cancelled by an operator")
    provision = test_running.made(Status.CANCELLED, verdict=by)
    at = running.Situation(
        operation=test_running.run(), provision=provision, release=None, commands=(), now=NOW
    )
    assert running.decide(at) == running.Finish(status=Status.CANCELLED, verdict=by)


def test_a_run_that_is_late_says_so() -> None:
    at = running.Situation(operation=test_running.OVERDUE, provision=None, release=None, commands=(), now=NOW)
    late = Verdict(reason=Reason.DEADLINE_EXCEEDED, message="the run did not end in time")
    assert running.decide(at) == running.Finish(status=Status.FAILED, verdict=late)
