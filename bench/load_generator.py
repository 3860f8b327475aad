"""A generator of load in a process of its own: requests over kept connections, one at a time on each.

`flat_out` asks again as soon as it is answered, for so many seconds. `paced` has a connection per node, on
which it beats every few seconds; it may also hold a stream for each on another one. Plain sockets and
epoll, so that it stays cheaper than any server in Python.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

from bench.children import say, told
from bench.http_client import HOST, request
from muster.agent.agent import SELDOM

BEAT = "/api/v1/agent/beat"
STREAM = "/api/v1/agent/stream"
REQUESTS_MOST = 2_000_000
_OK = b"HTTP/1.1 200"
_FAILED = b"HTTP/1.1 "


class _Line:
    """One connection. An answer is a JSON object, so it has ended when a brace comes last."""

    __slots__ = ("asked_at", "busy", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.busy = False
        self.asked_at = 0.0

    def admitted(self, payload: bytes) -> None:
        """Ask, and wait until the server knows whose connection it is: it keeps few of strangers."""
        self.socket.sendall(payload)
        assert self.socket.recv(65536).startswith(_OK)
        self.socket.setblocking(False)

    def ask(self, payload: bytes) -> None:
        self.busy = True
        self.asked_at = time.perf_counter()
        sent = self.socket.send(payload)
        assert sent == len(payload)

    def answered(self) -> bool:
        data = self.socket.recv(65536)
        assert data, "the server closed a connection"
        if data.startswith(_FAILED) and not data.startswith(_OK):
            raise AssertionError(data.decode())
        self.busy = not data.endswith(b"}")
        return not self.busy


def flat_out(*, port: int, path: str, tokens: Sequence[str], connections: int, seconds: float) -> None:
    """Send as fast as possible.

    With as many tokens as connections, each connection has its own, as agents do. With more tokens, all are
    sent in turn over all connections, as a proxy might.
    """
    requests = [request("POST", path, token=token, said={"activity": 1}) for token in tokens]
    payloads = cycle(requests)
    lines = {line.socket.fileno(): line for line in (_Line(port) for _ in range(connections))}
    poll = select.epoll()
    own: dict[int, Iterator[bytes]] = {}
    for number, line in lines.items():
        line.socket.setblocking(False)
        poll.register(number, select.EPOLLIN)
        own[number] = cycle([next(payloads)]) if len(tokens) == connections else payloads
        line.ask(next(own[number]))
    done, cpu = 0, sum(os.times()[:2])
    began = time.perf_counter()
    until = began + seconds
    while time.perf_counter() < until and done < REQUESTS_MOST:
        for number, _ in poll.poll(1):
            line = lines[number]
            if line.answered():
                done += 1
                line.ask(next(own[number]))
    took = time.perf_counter() - began
    say({"rate": done / took, "count": done, "busy": (sum(os.times()[:2]) - cpu) / took})


class _Crowd:
    """Nodes that beat on a connection each, or, if they beat seldom, on a new one each time: as agents do."""

    def __init__(self, port: int, tokens: Sequence[str], *, every: float, streaming: bool) -> None:
        self._port = port
        self._every = every
        self._seldom = every >= SELDOM
        self._poll = select.epoll()
        self._lines: dict[int, _Line] = {}
        self._after: dict[int, Callable[[_Line], None]] = {}
        self.took: list[float] = []
        self.late = 0
        asked = [
            request("POST", BEAT, token=token, said={"activity": 1}, close=self._seldom) for token in tokens
        ]
        self._beats = [(None if self._seldom else self._admitted(self._beaten, each), each) for each in asked]
        for token in tokens if streaming else ():
            # Its lines are read and left aside.
            self._admitted(lambda _line: None, request("GET", STREAM, token=token))

    def _admitted(self, after: Callable[[_Line], None], payload: bytes) -> _Line:
        line = _Line(self._port)
        line.admitted(payload)
        return self._heard(line, after)

    def _heard(self, line: _Line, after: Callable[[_Line], None]) -> _Line:
        number = line.socket.fileno()
        self._lines[number], self._after[number] = line, after
        self._poll.register(number, select.EPOLLIN)
        return line

    def _beaten(self, line: _Line) -> None:
        self.took.append(time.perf_counter() - line.asked_at)
        if self._seldom:
            number = line.socket.fileno()
            self._poll.unregister(number)
            del self._lines[number], self._after[number]
            line.socket.close()

    def _beat(self, line: _Line | None, payload: bytes) -> None:
        if line is None:
            line = self._heard(_Line(self._port), self._beaten)
        if line.busy:
            self.late += 1
        else:
            line.ask(payload)

    def run(self, seconds: float) -> None:
        """Send for every node in turn, evenly over the time of a round."""
        began = time.perf_counter()
        until = began + seconds
        following, lines = 0, self._beats
        while (now := time.perf_counter()) < until:
            while began + following * self._every / len(lines) <= now:
                self._beat(*lines[following % len(lines)])
                following += 1
            for number, _ in self._poll.poll(0.002, 1024):
                line = self._lines[number]
                if line.answered():
                    self._after[number](line)


def paced(
    *,
    port: int,
    tokens: Sequence[str],
    every: float,
    streaming: bool,
    settle: float,
    seconds: float,
) -> None:
    """Send at a fixed pace; print when it has begun, when it has settled, and then the result."""
    crowd = _Crowd(port, tokens, every=every, streaming=streaming)
    say({"connected": len(crowd._lines)})
    crowd.run(settle)
    crowd.took.clear()
    crowd.late = 0
    say({"settled": True})
    crowd.run(seconds)
    took = sorted(crowd.took)
    say(
        {
            "rate": len(took) / seconds,
            "late": crowd.late,
            "p50": took[len(took) // 2],
            "p99": took[len(took) * 99 // 100],
        }
    )


def main() -> None:
    given: dict[str, Any] = told()
    modes: dict[str, Callable[..., None]] = {"flat_out": flat_out, "paced": paced}
    modes[given.pop("mode")](**given)


if __name__ == "__main__":
    main()
