"""What a write of an operation carries beside the record."""

from dataclasses import replace

import pytest

from muster.domain.errors import IllegalTransition
from muster.domain.operation import Status, committed, extended, resumed
from muster.domain.progress import Progress
from tests.domain.builders import NOW, SMALLEST, operation


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_an_operation_is_extended_only_to_a_later_time(side: float) -> None:
    running = operation()
    if side <= 0:
        with pytest.raises(IllegalTransition):
            extended(running, deadline_at=running.deadline_at + side, source="extension", now=NOW)
        return
    change = extended(running, deadline_at=running.deadline_at + side, source="extension", now=NOW)
    assert change.after == replace(
        running,
        version=running.version + 1,
        updated_at=NOW,
        deadline_at=running.deadline_at + side,
        deadline_source="extension",
    )


def test_who_resumes_must_be_first_in_line() -> None:
    assert resumed(operation(status=Status.QUEUED, queued_since=NOW - 5), now=NOW).first_in_line


def test_a_commit_says_how_fresh_its_members_must_be() -> None:
    progress = Progress(step=5, total_steps=5, phase="handing_over", label="Handing over")
    assert committed(operation(), (), progress, now=NOW, fresh_for=21.0).fresh_for == 21.0
