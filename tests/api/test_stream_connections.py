"""The connections of agents' streams: who reads, who sends, who leaves, and what a stop does with them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.api import agent_stream, connections, server
from muster.api.app import Api
from muster.api.connections import IGNORED_MOST, BoundedConnection, ChunkedAnswer
from muster.client import calls
from muster.enrolment import streams as node_streams
from muster.wire.agent import StreamLine
from muster.wire.base import encode
from tests.api.loops import on_each_loop
from tests.api.site import Site, opened
from tests.api.test_agent_routes import _joined
from tests.api.test_agent_stream import StreamConnection, listening, tokens_of

LONG = 8 << 20
"""More than the buffers of a connection take."""
PROMPT = 0.5


def _long(line: StreamLine) -> bytes:
    return encode(line) + b" " * LONG


def _wide(line: StreamLine) -> bytes:
    """Short enough that the system takes several, long enough that it takes few."""
    return encode(line) + b" " * (LONG // 32)


async def _ended(site: Site, connected: int) -> None:
    """Until no stream is open, and so many connections are left."""

    async def ended() -> bool:
        return not len(site.api.context.streams) and site.limits.count == connected

    await site.until(ended)


@on_each_loop
async def test_an_agent_that_never_reads_is_dropped_and_little_was_kept_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", PROMPT)
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.0)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    monkeypatch.setattr(agent_stream, "encode", _wide)
    _, admitted = await _joined(site)
    before = site.limits.count
    async with listening(site, admitted["token"], buffer=4096) as connection:
        await connection.head()
        await _ended(site, before)
    pushed = site.api.context.metrics.pushes._values[(("what", "alive"),)]
    assert pushed < 1000, "it was paused, not fed"


@on_each_loop
async def test_agents_that_never_read_a_long_first_line_are_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", PROMPT)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    monkeypatch.setattr(agent_stream, "encode", _long)
    _, admitted = await _joined(site)
    before = site.limits.count
    async with AsyncExitStack() as stack:
        for _ in range(2):  # the second ends the first, and no client reads either
            connection = await stack.enter_async_context(listening(site, admitted["token"], buffer=4096))
            await connection.head()
        await _ended(site, before)


@on_each_loop
async def test_a_long_first_line_that_is_read_is_followed_by_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_stream, "encode", _long)
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"], buffer=4096, limit=LONG) as connection:
        await connection.head()
        assert (await connection.line())["desired"]["directive"] == "attach"
        await site.client().send(calls.terminate(admitted["node_id"]))
        assert (await connection.line())["desired"]["directive"] == "stop"


@on_each_loop
async def test_a_node_that_left_is_noticed_before_its_next_line(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    _, admitted = await _joined(site)
    before = site.limits.count
    for said in (b"", b"x", b"GET / HT"):
        async with listening(site, admitted["token"]) as connection:
            await connection.head()
            await connection.line()
            assert site.limits.count == before + 1, "a stream counts among the connections"
            connection.say(said)
        await _ended(site, before)


@on_each_loop
async def test_what_an_agent_sends_on_its_stream_is_dropped(site: Site) -> None:
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        await connection.line()
        connection.say(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
        await site.client().send(calls.terminate(admitted["node_id"]))
        assert (await connection.line())["desired"]["directive"] == "stop", "and the stream goes on"


@on_each_loop
async def test_an_agent_that_sends_on_and_on_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    _, admitted = await _joined(site)
    before = site.limits.count
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        await connection.line()
        connection.say(b"x" * (IGNORED_MOST + 1))
        await _ended(site, before)


@on_each_loop
async def test_a_request_behind_that_for_a_stream_ends_the_stream_in_order(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    _, admitted = await _joined(site)
    before = site.limits.count
    more = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
    async with listening(site, admitted["token"], more=more) as connection:
        await connection.head()
        assert (await connection.line())["desired"]["directive"] == "attach"
        assert await connection.line() is None
        await _ended(site, before)
    assert not _errors(caplog)


@on_each_loop
async def test_a_connection_that_breaks_before_its_stream_begins_is_no_error(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, admitted = await _joined(site)
    before = site.limits.count
    hand_over = BoundedConnection.hand_over
    broken: list[BoundedConnection] = []

    def breaking(self: BoundedConnection) -> ChunkedAnswer | None:
        self.transport.abort()
        broken.append(self)
        return hand_over(self)

    monkeypatch.setattr(BoundedConnection, "hand_over", breaking)
    async with listening(site, admitted["token"]):

        async def there() -> bool:
            return bool(broken)

        await site.until(there)
        await _ended(site, before)
    assert not _errors(caplog)


@on_each_loop
async def test_a_connection_that_breaks_as_its_stream_begins_leaves_none(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, admitted = await _joined(site)
    before = site.limits.count
    hand_over = BoundedConnection.hand_over
    broken: list[ChunkedAnswer] = []

    def breaking(self: BoundedConnection) -> ChunkedAnswer | None:
        answer = hand_over(self)
        assert answer is not None
        answer.abort()
        broken.append(answer)
        return answer

    monkeypatch.setattr(BoundedConnection, "hand_over", breaking)
    async with listening(site, admitted["token"]):

        async def there() -> bool:
            return bool(broken)

        await site.until(there)
        await _ended(site, before)
    assert not _errors(caplog)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@on_each_loop
async def test_a_server_that_stops_ends_its_streams_and_breaks_those_that_are_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck: list[ChunkedAnswer] = []
    pause = ChunkedAnswer.pause_writing

    def noted(self: ChunkedAnswer) -> None:
        stuck.append(self)
        pause(self)

    monkeypatch.setattr(ChunkedAnswer, "pause_writing", noted)
    read, unread = await tokens_of(site, 2)
    before = site.limits.count
    async with listening(site, read) as connection:
        await connection.head()
        await connection.line()
        monkeypatch.setattr(agent_stream, "encode", _long)
        async with listening(site, unread, buffer=4096):

            async def paused() -> bool:
                return any(answer._unsent is not None for answer in stuck)

            await site.until(paused)
            site.api.close()
            while await connection.line() is not None:
                pass
            await site.api.closed(PROMPT)
            assert not len(site.api.context.streams)
            await _ended(site, before)


async def test_a_stop_gives_streams_no_more_time_than_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", PROMPT)
    given: list[float] = []
    closed = Api.closed

    async def noted(self: Api, within: float) -> None:
        given.append(within)
        await closed(self, within)

    monkeypatch.setattr(Api, "closed", noted)
    async with AsyncExitStack() as stack, opened(tmp_path) as site:
        await site.template()
        _, admitted = await _joined(site)
        async with listening(site, admitted["token"]) as connection:
            await connection.head()
            await connection.line()
        endless = await stack.enter_async_context(_unfinished(site))
        await endless.head()  # so it is under way
    assert given == [0.0], "the request took all of the time"


@asynccontextmanager
async def _unfinished(site: Site) -> AsyncIterator[StreamConnection]:
    """A request whose body never comes whole. Its server has begun with it."""
    parts = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b"POST /api/v1/agent/beat HTTP/1.1\r\nHost: here\r\n")
    writer.write(b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
    try:
        yield StreamConnection(reader, writer)
    finally:
        writer.close()
