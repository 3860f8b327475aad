"""A beat like the last one on its connection is answered at once, and means what it would mean anyway."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from muster.api import server
from muster.api.beats import BODY_MOST, PATH, Beats
from muster.api.repeating import Repeating
from muster.client import calls
from tests.api.site import Site, opened
from tests.api.test_agent_routes import _join, _machine

KEEP_ALIVE = 0.2


class Line:
    """One connection, on which bytes are sent as they are given."""

    arrived: ClassVar[list[bytes]] = []
    last: ClassVar[Repeating]
    """The connection on which something came last."""
    news: ClassVar[asyncio.Event]

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        """Each is read before the next is sent."""
        for part in parts:
            wanted = sum(map(len, self.arrived)) + len(part)
            self.writer.write(part)
            async with asyncio.timeout(30):
                while sum(map(len, self.arrived)) < wanted:
                    self.news.clear()
                    await self.news.wait()

    async def answer(self) -> tuple[int, bytes, dict[bytes, bytes]]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, *lines = head.rstrip().split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines)
        body = await self.reader.readexactly(int(fields[b"content-length"]))
        return int(status.split()[1]), body, fields

    async def ask(self, *parts: bytes) -> tuple[int, bytes, dict[bytes, bytes]]:
        await self.send(*parts)
        return await self.answer()


@pytest.fixture(autouse=True)
def arriving(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the server."""
    took = Repeating.data_received
    Line.arrived, Line.news = [], asyncio.Event()

    def watched(self: Repeating, data: bytes) -> None:
        took(self, data)
        Line.arrived.append(data)
        Line.last = self
        Line.news.set()

    monkeypatch.setattr(Repeating, "data_received", watched)


@asynccontextmanager
async def line(site: Site) -> AsyncIterator[Line]:
    port = urlsplit(site.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


def beat(token: str, body: bytes = b'{"activity": 1}', more: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer %s\r\n" % (PATH.encode(), token.encode())
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
async def token(site: Site) -> str:
    token: str = (await _join(site, await _machine(site))).json()["token"]
    return token


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The beats that went the usual way."""
    went: list[str] = []
    way = Beats.__call__

    async def watched(self: Beats, scope: Any, receive: Any, send: Any) -> None:
        went.append(scope["path"])
        await way(self, scope, receive, send)

    monkeypatch.setattr(Beats, "__call__", watched)
    return went


async def test_a_beat_like_the_last_one_is_answered_alike_without_the_usual_way(
    site: Site, token: str, usual: list[str]
) -> None:
    async with line(site) as node:
        answers = [await node.ask(beat(token)) for _ in range(5)]
    assert len(usual) == 2, "what comes twice is known"
    assert {status for status, _, _ in answers} == {200}
    assert {body for _, body, _ in answers} == {answers[0][1]}
    assert {tuple(fields) for _, _, fields in answers} == {tuple(answers[0][2])}
    assert site.api.context.beats.total == 5


async def test_what_it_says_is_heard(site: Site, token: str, usual: list[str]) -> None:
    async with line(site) as node:
        for _ in range(2):
            await node.ask(beat(token, b'{"activity": 1}'))
        await node.ask(beat(token, b'{"activity": 7}'))
    assert len(usual) == 2
    (pending,) = site.api.context.plane.enrolment.heartbeats._pending.values()
    assert pending.activity == 7


async def test_what_it_must_not_say_is_refused(site: Site, token: str) -> None:
    async with line(site) as node:
        for _ in range(2):
            assert (await node.ask(beat(token, b'{"activity": 1}')))[0] == 200
        assert (await node.ask(beat(token, b'{"activity":-1}')))[0] == 422
        assert (await node.ask(beat(token, b'{"activity": 2}')))[0] == 200


async def test_a_token_that_died_is_refused_on_a_connection_that_knows_it(site: Site) -> None:
    machine = await _machine(site)
    token = (await _join(site, machine)).json()["token"]
    async with line(site) as node:
        for _ in range(3):
            assert (await node.ask(beat(token)))[0] == 200
        await _join(site, machine)
        assert (await node.ask(beat(token)))[0] == 401


async def test_a_node_whose_time_is_over_hears_it_on_a_connection_that_knows_it(site: Site) -> None:
    admitted = (await _join(site, await _machine(site))).json()
    client = site.client()
    async with line(site) as node:
        before = [(await node.ask(beat(admitted["token"])))[1] for _ in range(3)][-1]
        await client.send(calls.terminate(admitted["node_id"]))
        assert (await node.ask(beat(admitted["token"])))[1] != before


async def test_any_cut_of_the_bytes_means_the_same(site: Site, token: str) -> None:
    whole = beat(token)
    async with line(site) as node:
        for _ in range(3):
            assert (await node.ask(whole))[0] == 200
        for cut in (1, 4, len(whole) // 2, whole.index(b"\r\n\r\n") + 4, len(whole) - 1):
            assert (await node.ask(whole[:cut], whole[cut:]))[0] == 200
        await node.send(whole + whole + whole[:9], whole[9:])
        assert [(await node.answer())[0] for _ in range(3)] == [200, 200, 200]


async def test_the_bytes_of_a_beat_inside_another_request_are_no_beat(site: Site, token: str) -> None:
    whole = beat(token)
    other = (
        b"POST /api/v1/agent/report HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer %s\r\n" % token.encode()
    )
    other += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(whole)
    async with line(site) as node:
        for _ in range(3):
            assert (await node.ask(whole))[0] == 200
        beats = site.api.context.beats.total
        await node.send(other)
        assert (await node.ask(whole))[0] in (400, 422)
        assert site.api.context.beats.total == beats
        await node.send(b"POST /api/v1/agent/report HTTP/1.1\r\nX-Part: ")
        await node.send(whole)
        assert (await node.answer())[0] != 200
        assert site.api.context.beats.total == beats


async def test_a_head_without_its_end_is_never_known(site: Site, token: str) -> None:
    """Its end comes alone, both times: what begins like it may be something else."""
    whole = beat(token)
    cut = whole.index(b"\r\n\r\n") + 2
    async with line(site) as node:
        for _ in range(2):
            assert (await node.ask(whole[:cut], whole[cut:]))[0] == 200
        assert (node.last._head, node.last._known) == (b"", None)


async def test_a_beat_that_closes_its_connection_still_does(site: Site, token: str) -> None:
    async with line(site) as node:
        for _ in range(3):
            assert (await node.ask(beat(token)))[0] == 200
        assert (await node.ask(beat(token, more=b"Connection: close\r\n")))[0] == 200
        assert await node.reader.read() == b""


@pytest.mark.parametrize(("size", "status"), [(BODY_MOST, 200), (BODY_MOST + 1, 422)])
async def test_a_body_is_bounded_also_when_it_comes_again(
    site: Site, token: str, size: int, status: int
) -> None:
    body = b"{" + b" " * (size - 2) + b"}"
    async with line(site) as node:
        assert (await node.ask(beat(token)))[0] == 200
        for _ in range(4):
            assert (await node.ask(beat(token, body)))[0] == status


async def test_beats_keep_their_connection_and_silence_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", KEEP_ALIVE)
    async with opened(tmp_path) as site:
        await site.template()
        token = (await _join(site, await _machine(site))).json()["token"]
        async with line(site) as node:
            until = time.monotonic() + 3 * KEEP_ALIVE
            while time.monotonic() < until:
                assert (await node.ask(beat(token)))[0] == 200
            assert await node.reader.read() == b""
