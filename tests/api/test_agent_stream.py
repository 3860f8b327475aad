"""The agents' stream, as a stranger hears it: bytes over a plain socket."""

import asyncio
import gc
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from muster.api import connections, server
from muster.api.connections import Bounded, ChunkedAnswer
from muster.client import calls
from muster.domain.requests import ProvisionRequest
from muster.enrolment import streams as node_streams
from tests.api.site import AGENT, Site, opened
from tests.api.test_agent_routes import _join, _joined, _machine

PATH = f"{AGENT}/stream"
SOON = 30.0
MANY = 10
KEPT_MOST = 8000
"""Bytes of Python's memory for an open stream, with all that leads to it."""


class Ear:
    """One connection that hears a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.say = writer.write

    async def head(self) -> bytes:
        async with asyncio.timeout(SOON):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def line(self) -> Any:
        """The next; None: the stream has ended as HTTP says."""
        async with asyncio.timeout(SOON):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            chunk = (await self._reader.readexactly(size + 2))[:-2]
        if not chunk:
            return None
        assert chunk.endswith(b"\n") and chunk.count(b"\n") == 1, "one line, whole"
        return json.loads(chunk)


def _asking(token: str) -> bytes:
    return f"GET {PATH} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


@asynccontextmanager
async def listening(site: Site, token: str, *, buffer: int = 0) -> AsyncIterator[Ear]:
    parts, line = urlsplit(site.url), socket.socket()
    if buffer:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.connect((parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=4096)
    writer.write(_asking(token))
    try:
        yield Ear(reader, writer)
    finally:
        writer.close()


async def test_a_node_hears_each_thing_to_do_once_from_its_join_to_its_end(site: Site) -> None:
    node, admitted = await _joined(site)
    client = site.client()
    (operation,) = (await client.send(calls.operations())).items
    async with listening(site, admitted["token"]) as ear:
        head = await ear.head()
        assert head.startswith(b"HTTP/1.1 200") and b"application/x-ndjson" in head
        assert b"transfer-encoding: chunked" in head and b"x-accel-buffering: no" in head
        first = await ear.line()
        assert first["desired"]["directive"] == "attach" and first["beat_seconds"] == 5.0
        assignment = first["desired"]["assignment_id"]

        await node.post(f"{AGENT}/report", json={"booted": True})
        said = (await node.post(f"{AGENT}/report", json={"attached": assignment})).json()
        await site.ended(client, operation)
        release = await client.send(calls.release(operation_id=operation.operation_id))
        second = (await ear.line())["desired"]
        assert (second["directive"], second["assignment_id"]) == ("detach", assignment)
        assert second["version"] > said["version"], "what changed only the version was told to nobody"

        said = (await node.post(f"{AGENT}/report", json={"detached": assignment})).json()
        assert said["directive"] == "stay"
        await site.ended(client, release)
        await client.send(calls.terminate(admitted["node_id"]))
        assert (await ear.line())["desired"]["directive"] == "stop", "what an answer said isn't said again"


async def test_a_silent_stream_says_all_again_and_puts_the_dead_man_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.2)
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as ear:
        await ear.head()
        first, second = await ear.line(), await ear.line()
    assert first["desired"]["directive"] == second["desired"]["directive"] == "attach"
    assert second["desired"]["dead_man"] == pytest.approx(first["desired"]["dead_man"], abs=5.0)


async def test_a_stream_says_when_nodes_shall_beat_at_another_pace(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.2)
    machine = await _machine(site)
    token = (await _join(site, machine)).json()["token"]
    async with listening(site, token) as ear:
        await ear.head()
        assert (await ear.line())["beat_seconds"] == 5.0
        await site.api.context.plane.watch_tracker.set_beat(20.0)
        while (await ear.line())["beat_seconds"] != 20.0:
            pass
    assert (await _join(site, machine)).json()["beat_seconds"] == 20.0


def test_a_line_comes_before_a_proxy_or_an_agent_loses_patience() -> None:
    assert node_streams.SILENT_MOST < 25.0


async def test_the_stream_ends_when_the_server_stops(site: Site) -> None:
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as ear:
        await ear.head()
        await ear.line()
        site.api.close()
        assert await ear.line() is None


async def test_the_newest_stream_of_a_node_is_the_only_one(site: Site) -> None:
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as older, listening(site, admitted["token"]) as newer:
        await older.head()
        await newer.head()
        await newer.line()
        assert len(site.api.context.streams) == 1
        lines = [await older.line(), await older.line()]
        assert None in lines
        await site.client().send(calls.terminate(admitted["node_id"]))
        assert (await newer.line())["desired"]["directive"] == "stop"


async def test_a_token_that_died_hears_nothing_more(site: Site) -> None:
    machine = await _machine(site)
    old = (await _join(site, machine)).json()["token"]
    async with listening(site, old) as ear:
        await ear.head()
        await ear.line()
        assert (await _join(site, machine)).status_code == 200
        assert await ear.line() is None
    async with listening(site, old) as ear:
        assert (await ear.head()).startswith(b"HTTP/1.1 401")


async def test_an_agent_that_never_reads_is_dropped_and_little_was_kept_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.0)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    _, admitted = await _joined(site)
    streams = site.api.context.streams
    async with listening(site, admitted["token"], buffer=4096) as ear:
        await ear.head()

        async def dropped() -> bool:
            return not len(streams)

        await site.until(dropped)
    pushed = site.api.context.metrics.pushes._values[(("what", "alive"),)]
    assert pushed < 50_000, "it was paused, not fed"


async def test_a_node_that_left_is_noticed_before_its_next_line(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as ear:
        await ear.head()
        await ear.line()
        assert len(site.api.context.streams) == 1

    async def gone() -> bool:
        return not len(site.api.context.streams)

    await site.until(gone)


async def test_what_an_agent_sends_on_its_stream_is_left_unread(site: Site) -> None:
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as ear:
        await ear.head()
        await ear.line()
        ear.say(f"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n{'x' * 100_000}".encode())
        await site.client().send(calls.terminate(admitted["node_id"]))
        assert (await ear.line())["desired"]["directive"] == "stop", "and the stream goes on"


async def test_an_open_stream_keeps_nothing_of_its_request_and_few_bytes(site: Site) -> None:
    tokens = await _tokens(site, 2 * MANY)
    requests = _requests()
    with ExitStack() as stack:
        for token in tokens[:MANY]:
            stack.enter_context(await _heard(site, token))
        tracemalloc.start()
        try:
            for token in tokens[MANY:]:
                stack.enter_context(await _heard(site, token))
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] / MANY
        finally:
            tracemalloc.stop()
        assert len(site.api.context.streams) == 2 * MANY
        assert _requests() <= requests, "HTTP keeps nothing of a stream"
    assert kept < KEPT_MOST


async def _tokens(site: Site, count: int) -> list[str]:
    """Of nodes that joined."""
    site.lazy = True
    client = site.client()
    await client.send(calls.provision(ProvisionRequest(template="ci", count=count, run="run-1")))

    async def there() -> bool:
        return len((await client.send(calls.nodes(state=["created"]))).items) == count

    await site.until(there)
    made = (await client.send(calls.nodes(state=["created"]))).items
    return [(await _join(site, node.machine_id)).json()["token"] for node in made]


async def _heard(site: Site, token: str) -> socket.socket:
    """A plain socket, which keeps no memory of Python's, on which the first line came."""
    loop, parts, line = asyncio.get_running_loop(), urlsplit(site.url), socket.socket()
    line.setblocking(False)
    await loop.sock_connect(line, (parts.hostname, parts.port))
    await loop.sock_sendall(line, _asking(token))
    heard = b""
    async with asyncio.timeout(SOON):
        while not heard.endswith(b"}\n\r\n"):
            heard += await loop.sock_recv(line, 4096)
    return line


def _requests() -> int:
    gc.collect()
    return sum(isinstance(each, Bounded | RequestResponseCycle) for each in gc.get_objects())


async def test_a_stream_counts_among_the_connections_until_it_ends(site: Site) -> None:
    _, admitted = await _joined(site)
    lines = site.lines
    before = lines.count

    async with listening(site, admitted["token"]) as ear:
        await ear.head()
        await ear.line()
        assert lines.count == before + 1

    async def left() -> bool:
        return lines.count == before

    await site.until(left)


async def test_a_server_that_stops_ends_its_streams_and_breaks_those_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.5)
    stuck: list[ChunkedAnswer] = []
    pause = ChunkedAnswer.pause_writing

    def noted(self: ChunkedAnswer) -> None:
        stuck.append(self)
        pause(self)

    monkeypatch.setattr(ChunkedAnswer, "pause_writing", noted)
    async with AsyncExitStack() as stack:
        async with opened(tmp_path) as site:
            await site.template()
            read, unread = await _tokens(site, 2)
            ear = await stack.enter_async_context(listening(site, read))
            await ear.head()
            await ear.line()
            monkeypatch.setattr(node_streams, "SILENT_MOST", 0.0)
            await stack.enter_async_context(listening(site, unread, buffer=4096))

            async def paused() -> bool:
                return any(answer._unsent is not None for answer in stuck)

            await site.until(paused)
        assert not len(site.api.context.streams)
        while await ear.line() is not None:
            pass
