"""Operations that a bug stops are named first, by their ids."""

from dataclasses import replace

import pytest

from muster.domain import work_findings
from muster.domain.failures import Failed, Failure
from muster.domain.ids import OperationId
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.verdicts import judge
from tests.domain.builders import NOW, SMALLEST, operation
from tests.domain.test_verdicts import QUIET, calls

ENDED = Failure(
    id="op-1",
    what=Failed.OPERATION,
    at=NOW - 60.0,
    reason=Reason.INTERNAL,
    template="ci",
    revision=None,
    node_id=None,
    operation_id=OperationId("op-1"),
    detail="an internal error ended it: KeyError: 'x' (error id err-1; the server's log has more)",
)


def test_an_operation_that_an_internal_error_ended_is_named_first() -> None:
    first, *_ = judge(replace(QUIET, internal=[ENDED], store=calls(100, errors=50)))
    assert (first.code, first.tone, first.subject) == ("internal_error", Tone.DANGER, "op-1")
    assert first.text.startswith(
        "Operation op-1 of ci failed 1 min ago: an internal error ended it: KeyError"
    )
    assert "err-1" in first.text
    assert first.advice.startswith("This is a bug in Muster")


@pytest.mark.parametrize(("more", "over"), [(0.0, False), (SMALLEST, True)])
def test_after_a_while_it_is_over(more: float, over: bool) -> None:
    found = judge(replace(QUIET, internal=[replace(ENDED, at=NOW - work_findings.RECENT - more)]))
    assert [each.over for each in found] == [over]


def test_an_operation_that_errors_stop_is_named_before_those_that_ended() -> None:
    errs = replace(operation(), errors=3)
    first, second = judge(replace(QUIET, stuck_operations=[errs, operation()], internal=[ENDED]))
    assert first.text == f"Operation {errs.id} (provision) had 3 unforeseen errors in a row; 1 other too."
    assert first.about is not None
    assert (first.about.id, second.code) == (errs.id, "internal_error")


def test_an_operation_that_outlives_its_deadline_says_by_how_much() -> None:
    late = replace(operation(), deadline_at=NOW - 600.0)
    (found,) = judge(replace(QUIET, stuck_operations=[late]))
    assert found.text == f"Operation {late.id} (provision) is 10 min past its deadline."
