"""Machines that their provider takes back: the agent's word about it, driven by hand."""

import pytest

from muster.agent import agent as a
from tests.agent.test_core import ANSWER, JOINED, attached, joined

NOTICE = {"interrupted": 120.0}


def test_a_notice_is_told_before_anything_else_and_once() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.feed(a.Noticed(120.0))
    assert drive.open["report"].body == NOTICE
    drive.answer("report", 200, ANSWER)
    assert a.news(drive.state) == {}


def test_a_notice_that_was_not_heard_is_told_again() -> None:
    drive = attached()
    drive.feed(a.Noticed(120.0))
    drive.answer("report", 0)
    drive.to_wake()
    assert drive.open["report"].body == NOTICE


def test_a_server_that_forgot_the_node_hears_it_again() -> None:
    drive = joined()
    drive.answer("report", 200, ANSWER)
    drive.feed(a.Noticed(120.0))
    drive.answer("report", 200, ANSWER)
    drive.answer("poll", 401)
    drive.to_wake()
    drive.answer("join", 200, JOINED)
    assert a.news(drive.state) == NOTICE


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_does_not_know_notices_is_not_asked_for_ever(status: int) -> None:
    drive = attached()
    drive.feed(a.Noticed(120.0))
    drive.answer("report", status)
    assert a.news(drive.state) == {}


def test_a_notice_ends_nothing_by_itself() -> None:
    drive = attached()
    drive.feed(a.Noticed(0.0))
    assert not drive.over() and not drive.of(a.Detach)
