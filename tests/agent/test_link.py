"""A connection to the server: kept for the next call, or not."""

import socket
import threading
from typing import Any

import pytest

from muster.agent import agent as a
from tests.agent.plane import Handler, Plane, Server


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


def test_what_one_link_finds_frozen_the_others_leave_at_once(plane: Plane, server: Server) -> None:
    """Each would wait as long for an answer that never comes, and a node would attach too late."""
    other, thawed = Server(plane), threading.Event()
    asked: list[int] = []

    def answers(handler: Handler) -> bool:
        asked.append(handler.connection.getsockname()[1])
        return False

    def hangs(handler: Handler) -> bool:
        thawed.wait()
        handler.drop()
        return True

    plane.tokens = 1
    servers = [server.url, other.url]
    beats, reports, polls = (a.Link(servers) for _ in range(3))
    try:
        plane.fault("/report", answers, times=2)
        assert reports.call("POST", "/report", {"booted": True}, "token-1")[0] == 200
        plane.fault("/beat", hangs, times=2)
        hung = threading.Thread(target=polls.call, args=("POST", "/beat", {}, "token-1"))
        hung.start()
        assert beats.call("POST", "/beat", {}, "token-1", timeout=0.1)[0] == 0
        assert reports.call("POST", "/report", {"booted": True}, "token-1")[0] == 200
        assert asked == [server.port, other.port]
        thawed.set()
        hung.join()
        assert servers[0] == other.url, "a second link that fails there leads none back"
    finally:
        thawed.set()
        for link in (beats, reports, polls):
            link.close()
        other.stop()


def test_a_request_and_its_body_are_sent_together(
    plane: Plane, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send wakes the server, so two cost it twice as much."""
    plane.tokens = 1
    sent: list[bytes] = []
    for name in ("send", "sendall"):
        really = getattr(socket.socket, name)

        def counted(self: socket.socket, data: Any, *more: Any, really: Any = really) -> Any:
            if b"/api/v1/agent/beat" in bytes(data) or b"activity" in bytes(data):
                sent.append(bytes(data))
            return really(self, data, *more)

        monkeypatch.setattr(socket.socket, name, counted)
    link = a.Link([server.url])
    assert link.call("POST", "/beat", {"activity": 1}, "token-1")[0] == 200
    assert [each.endswith(b'{"activity": 1}') for each in sent] == [True]
    link.close()
