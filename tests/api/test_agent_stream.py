"""The agents' stream, as a stranger hears it: bytes over a plain socket."""

import asyncio
import gc
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from muster.api.connections import BoundedConnection
from muster.client import calls
from muster.domain.desired_state import Desired
from muster.domain.ids import NodeId
from muster.domain.requests import ProvisionRequest
from muster.enrolment import streams as node_streams
from muster.enrolment.streams import Streams
from muster.ports.store import NodeView
from muster_simulation.cloud.provider import proof_of
from tests.api.site import AGENT, Site
from tests.api.test_agent_routes import _join, _joined, _machine
from tests.api.test_enrolling import _enrol, _template

PATH = f"{AGENT}/stream"
SOON = 30.0
MANY = 10
KEPT_MOST = 8000
"""Bytes of Python's memory for an open stream, with all that leads to it."""


class StreamConnection:
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


def asking(token: str) -> bytes:
    return f"GET {PATH} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


@asynccontextmanager
async def listening(
    site: Site, token: str, *, buffer: int = 0, limit: int = 4096, more: bytes = b""
) -> AsyncIterator[StreamConnection]:
    """`buffer` is the system's and `limit` is Python's. `more` is sent in one piece with the request."""
    parts, line = urlsplit(site.url), socket.socket()
    if buffer:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.connect((parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=limit)
    writer.write(asking(token) + more)
    try:
        yield StreamConnection(reader, writer)
    finally:
        writer.close()


async def test_a_node_hears_each_thing_to_do_once_from_its_join_to_its_end(site: Site) -> None:
    node, admitted = await _joined(site)
    client = site.client()
    (operation,) = (await client.send(calls.operations())).items
    async with listening(site, admitted["token"]) as connection:
        head = await connection.head()
        assert head.startswith(b"HTTP/1.1 200") and b"application/x-ndjson" in head
        assert b"transfer-encoding: chunked" in head and b"x-accel-buffering: no" in head
        first = await connection.line()
        assert first["desired"]["directive"] == "attach" and first["beat_seconds"] == 5.0
        assignment = first["desired"]["assignment_id"]

        await node.post(f"{AGENT}/report", json={"booted": True})
        said = (await node.post(f"{AGENT}/report", json={"attached": assignment})).json()
        await site.ended(client, operation)
        release = await client.send(calls.release(operation_id=operation.operation_id))
        second = (await connection.line())["desired"]
        assert (second["directive"], second["assignment_id"]) == ("detach", assignment)
        assert second["version"] > said["version"], "what changed only the version was not told"

        said = (await node.post(f"{AGENT}/report", json={"detached": assignment})).json()
        assert said["directive"] == "stay"
        await site.ended(client, release)
        await client.send(calls.terminate(admitted["node_id"]))
        assert (await connection.line())["desired"]["directive"] == "stop", (
            "what an answer said isn't said again"
        )


async def test_a_silent_stream_says_all_again_and_puts_the_dead_man_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.2)
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        first, second = await connection.line(), await connection.line()
    assert first["desired"]["directive"] == second["desired"]["directive"] == "attach"
    assert second["desired"]["dead_man"] == pytest.approx(first["desired"]["dead_man"], abs=5.0)


async def test_a_stream_says_when_nodes_shall_beat_at_another_pace(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 0.2)
    machine = await _machine(site)
    token = (await _join(site, machine)).json()["token"]
    async with listening(site, token) as connection:
        await connection.head()
        assert (await connection.line())["beat_seconds"] == 5.0
        while (await connection.line())["beat_seconds"] != 20.0:
            # Again, if it must be: the duty that keeps the pace finds one node, and takes this back once.
            await site.api.context.plane.watch_tracker.set_beat(20.0)
    assert (await _join(site, machine)).json()["beat_seconds"] == 20.0


def test_a_line_comes_before_a_proxy_or_an_agent_loses_patience() -> None:
    assert node_streams.SILENT_MOST < 25.0


async def test_the_stream_ends_when_the_server_stops(site: Site) -> None:
    _, admitted = await _joined(site)
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        await connection.line()
        site.api.close()
        assert await connection.line() is None


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
    async with listening(site, old) as connection:
        await connection.head()
        await connection.line()
        assert (await _join(site, machine)).status_code == 200
        assert await connection.line() is None
    async with listening(site, old) as connection:
        assert (await connection.head()).startswith(b"HTTP/1.1 401")


async def test_a_second_enrolment_ends_the_stream_of_the_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    await _template(site)
    old = (await _enrol(site)).json()["token"]
    async with listening(site, old) as connection:
        await connection.head()
        await connection.line()
        assert (await _enrol(site)).status_code == 200
        assert await connection.line() is None


async def test_news_for_a_node_whose_token_another_replica_replaced_are_not_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    async with _replaced_elsewhere(site) as (connection, node_id):
        await site.client().send(calls.terminate(node_id))
        assert await connection.line() is None


async def test_a_join_at_another_replica_ends_the_stream_of_the_older_token(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_streams, "SILENT_MOST", 1e6)
    async with _replaced_elsewhere(site) as (connection, node_id):
        ports = site.ports
        Streams(ports.wakeups, ports.clock, ports.ids).end(NodeId(node_id))
        assert await connection.line() is None


@asynccontextmanager
async def _replaced_elsewhere(site: Site) -> AsyncIterator[tuple[StreamConnection, str]]:
    """Who hears the stream of a node that has a new token, unknown to the streams of this replica."""
    machine = await _machine(site)
    admitted = (await _join(site, machine)).json()
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        await connection.line()
        await site.api.context.plane.enrolment.join(proof_of(machine), key="key-1", boot_id="boot-1")
        yield connection, admitted["node_id"]


async def test_a_token_that_dies_while_its_first_line_is_read_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await _machine(site)
    old = (await _join(site, machine)).json()["token"]
    enrolment = site.api.context.plane.enrolment
    desired = enrolment.desired_for

    async def slow(node_view: NodeView) -> Desired:
        found = await desired(node_view)
        monkeypatch.setattr(enrolment, "desired_for", desired)
        assert (await _join(site, machine)).status_code == 200
        return found

    monkeypatch.setattr(enrolment, "desired_for", slow)
    async with listening(site, old) as connection:
        assert (await connection.head()).startswith(b"HTTP/1.1 401")
    assert not len(site.api.context.streams)


async def test_a_line_that_was_read_when_its_stream_ended_is_not_sent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, admitted = await _joined(site)
    node_id = NodeId(admitted["node_id"])
    async with listening(site, admitted["token"]) as connection:
        await connection.head()
        await connection.line()
        enrolment = site.api.context.plane.enrolment
        desired = enrolment.desired_for

        async def late(node_view: NodeView) -> Desired:
            found = await desired(node_view)
            site.api.context.streams.end(node_view.node.id)
            return found

        monkeypatch.setattr(enrolment, "desired_for", late)
        await site.client().send(calls.terminate(node_id))
        assert await connection.line() is None


async def test_a_request_that_is_cancelled_before_the_first_line_leaves_no_stream(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, admitted = await _joined(site)
    reached = asyncio.Event()

    async def never(node_view: NodeView) -> Desired:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError(node_view)

    monkeypatch.setattr(site.api.context.plane.enrolment, "desired_for", never)
    asked = asyncio.create_task(_asked(site, admitted["token"], []))
    await reached.wait()
    assert len(site.api.context.streams) == 1
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert not len(site.api.context.streams)


async def test_on_another_server_a_stream_is_its_first_line(site: Site) -> None:
    _, admitted = await _joined(site)
    sent: list[Message] = []
    await _asked(site, admitted["token"], sent)
    assert [each.get("more_body") for each in sent] == [None, True, False]
    assert json.loads(sent[1]["body"])["desired"]["directive"] == "attach"
    assert not len(site.api.context.streams)


async def _asked(site: Site, token: str, sent: list[Message]) -> None:
    """Ask the application itself, without the server's connections."""

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("a stream reads nothing of its request")

    scope = {
        "type": "http",
        "method": "GET",
        "path": PATH,
        "headers": [(b"authorization", f"Bearer {token}".encode())],
    }
    await site.api(scope, receive, send)


async def test_an_open_stream_keeps_nothing_of_its_request_and_few_bytes(site: Site) -> None:
    tokens = await tokens_of(site, 2 * MANY)
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


async def tokens_of(site: Site, count: int) -> list[str]:
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
    await loop.sock_sendall(line, asking(token))
    heard = b""
    async with asyncio.timeout(SOON):
        while not heard.endswith(b"}\n\r\n"):
            heard += await loop.sock_recv(line, 4096)
    return line


def _requests() -> int:
    gc.collect()
    return sum(isinstance(each, BoundedConnection | RequestResponseCycle) for each in gc.get_objects())
