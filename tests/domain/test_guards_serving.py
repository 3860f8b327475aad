"""When nothing more is to be expected of an app, and what it is told."""

from typing import Any

import pytest

from muster.domain import checks
from muster.domain.boot import Phase
from muster.domain.deadlines import Deadline
from muster.domain.errors import InvalidRequest, Lost, Removed
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.serving import KEY_LEAST, App, enrolled, is_gone, turned_away
from muster.domain.template import EXTERNAL, Runtime
from tests.domain.builders import LIMITS, NOW, SMALLEST, node, template

LOST = LIMITS.lost_after


def app(**fields: Any) -> App:
    given: dict[str, Any] = {"key": "k" * KEY_LEAST, "boot_id": "boot-1", "name": "web", "beat_seconds": 5.0}
    return App(**(given | fields))


def condemned(**fields: Any) -> Node:
    return node(NodeState.TERMINATING, provider=EXTERNAL, **fields)


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
@pytest.mark.parametrize(
    ("seen", "joined"),
    [(LOST, 10 * LOST), (10 * LOST, LOST), (LOST, None), (None, LOST)],
    ids=["seen last", "joined last", "never joined", "never seen"],
)
def test_an_app_is_gone_once_nobody_heard_it_for_long_enough(
    seen: float | None, joined: float | None, side: float
) -> None:
    def ago(seconds: float | None) -> float | None:
        return None if seconds is None else NOW - seconds - side

    silent = condemned(joined_at=ago(joined))
    assert is_gone(silent, seen_at=ago(seen), now=NOW, lost_after=LOST) is (side >= 0)


@pytest.mark.parametrize("side", [-SMALLEST, 0.0])
def test_an_app_that_was_never_heard_is_gone_after_the_same_time(side: float) -> None:
    assert is_gone(condemned(), seen_at=None, now=LOST + side, lost_after=LOST) is (side >= 0)


def test_an_app_that_left_is_gone_at_once() -> None:
    assert is_gone(condemned(left_at=NOW), seen_at=NOW, now=NOW, lost_after=LOST)


@pytest.mark.parametrize(
    ("reason", "detail", "why"),
    [
        (Reason.OPERATOR, "", "operator"),
        (Reason.CANCELLED, "by alice", "cancelled: by alice"),
        (Reason.RETIRED, "", "retired"),
    ],
)
def test_an_app_that_somebody_removed_hears_so_and_why(reason: Reason, detail: str, why: str) -> None:
    told = turned_away(condemned(reason=reason, detail=detail))
    assert isinstance(told, Removed)
    assert f"({why})" in str(told)


@pytest.mark.parametrize(
    ("reason", "detail", "why"),
    [(None, "", "its time is over"), (Reason.MACHINE_GONE, "silent", f"{Reason.MACHINE_GONE}: silent")],
)
def test_an_app_that_was_given_up_may_enrol_anew(reason: Reason | None, detail: str, why: str) -> None:
    told = turned_away(condemned(reason=reason, detail=detail))
    assert isinstance(told, Lost)
    assert f"({why})" in str(told)


@pytest.mark.parametrize("length", [KEY_LEAST - 1, KEY_LEAST, checks.RUN_MAX, checks.RUN_MAX + 1])
def test_a_key_is_neither_short_nor_endless(length: int) -> None:
    if KEY_LEAST <= length <= checks.RUN_MAX:
        assert app(key="k" * length).key == "k" * length
        return
    with pytest.raises(InvalidRequest) as refused:
        app(key="k" * length)
    assert refused.value.field == "key"


def test_a_beat_that_is_no_number_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        app(beat_seconds=True)
    assert refused.value.field == "beat_seconds"
    with pytest.raises(InvalidRequest):
        app(beat_seconds="5")


def test_an_app_begins_as_joined() -> None:
    made = enrolled(
        app(address="http://a"),
        template(provider=EXTERNAL, runtime=Runtime.SERVICE),
        node_id=NodeId("node-1"),
        machine_id="m",
        assignment_id=AssignmentId("as-1"),
        deadline=Deadline(seconds=7.0, source="default"),
        now=NOW,
    )
    assert (made.phase, made.address, made.deadline_at) == (Phase.JOINED.value, "http://a", NOW + 7.0)
