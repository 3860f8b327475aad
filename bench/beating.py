"""A generator of load in a process of its own: requests over kept connections, one at a time on each.

`flat_out` asks again as soon as it is answered, for so many seconds. `paced` has a connection per node, on
which it beats every few seconds; it may also hold a long poll for each on another one. Plain sockets and
epoll, so that it stays cheaper than any server in Python.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle
from typing import Any

from bench.children import say, told
from bench.wire import HOST, request

BEAT = "/api/v1/agent/beat"
REQUESTS_MOST = 2_000_000
_OK = b"HTTP/1.1 200"
_FAILED = b"HTTP/1.1 "


class _Line:
    """One connection. An answer is a JSON object, so it has ended when a brace comes last."""

    __slots__ = ("asked_at", "busy", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.busy = False
        self.asked_at = 0.0

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
    """With as many tokens as connections, each has its own, as agents do; with more, all are sent in turn
    over all of them, as a proxy might."""
    requests = [request("POST", path, token=token, said={"activity": 1}) for token in tokens]
    payloads = cycle(requests)
    lines = {line.socket.fileno(): line for line in (_Line(port) for _ in range(connections))}
    poll = select.epoll()
    own: dict[int, Iterator[bytes]] = {}
    for number, line in lines.items():
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
    def __init__(self, port: int, nodes: Sequence[tuple[str, int]], *, every: float, polling: float) -> None:
        self._every = every
        self._polling = polling
        self._poll = select.epoll()
        self._lines: dict[int, _Line] = {}
        self._after: dict[int, Callable[[_Line], None]] = {}
        self.took: list[float] = []
        self.late = 0
        self._beats = [
            (self._line(port, self._beaten), request("POST", BEAT, token=token, said={"activity": 1}))
            for token, _ in nodes
        ]
        self._polls = [
            (self._line(port, lambda _line: None), self._asking(token, version))
            for token, version in (nodes if polling else ())
        ]

    def _asking(self, token: str, version: int) -> bytes:
        path = f"/api/v1/agent/desired?known={version}&timeout={self._polling:g}"
        return request("GET", path, token=token)

    def _line(self, port: int, after: Callable[[_Line], None]) -> _Line:
        line = _Line(port)
        number = line.socket.fileno()
        self._lines[number], self._after[number] = line, after
        self._poll.register(number, select.EPOLLIN)
        return line

    def _beaten(self, line: _Line) -> None:
        self.took.append(time.perf_counter() - line.asked_at)

    def run(self, seconds: float) -> None:
        """Every node in its turn, evenly over the time that a round takes."""
        began = time.perf_counter()
        until = began + seconds
        turns = [(self._beats, self._every, count())]
        if self._polls:
            # A little longer than it is held, so that the earlier one has been answered.
            turns.append((self._polls, self._polling + 0.5, count()))
        following = [next(number) for _, _, number in turns]
        while (now := time.perf_counter()) < until:
            for place, (lines, period, numbers) in enumerate(turns):
                while began + following[place] * period / len(lines) <= now:
                    line, payload = lines[following[place] % len(lines)]
                    if line.busy:
                        self.late += 1
                    else:
                        line.ask(payload)
                    following[place] = next(numbers)
            for number, _ in self._poll.poll(0.002, 1024):
                line = self._lines[number]
                if line.answered():
                    self._after[number](line)


def paced(
    *,
    port: int,
    nodes: Sequence[tuple[str, int]],
    every: float,
    polling: float,
    settle: float,
    seconds: float,
) -> None:
    """Says so when it has begun and when it has settled, and then how it went."""
    crowd = _Crowd(port, nodes, every=every, polling=polling)
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
