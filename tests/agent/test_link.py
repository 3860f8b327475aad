"""A connection to the server: kept for the next call, or not."""

import pytest

from muster.agent import agent as a
from tests.agent.plane import Plane, Server


@pytest.mark.parametrize("once", [False, True])
def test_a_connection_that_is_not_kept_is_closed_by_both_ends(
    plane: Plane, server: Server, once: bool
) -> None:
    plane.tokens = 1
    link = a.Link([server.url])
    for _ in range(2):
        status, _body, _wait = link.call("POST", "/beat", {"activity": 1}, "token-1", once=once)
        assert status == 200
        assert (link.connection is None) is once
    assert plane.beats == [1, 1]
    link.close()


def test_only_a_node_that_beats_seldom_keeps_no_connection_for_it() -> None:
    assert a.State().beat_seconds < a.SELDOM < 20.0, "20 s: the pace of ten thousand nodes"
