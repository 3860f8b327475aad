"""Raw sockets: heads without end, callers that are slow or silent, and bytes that mean two things."""

import asyncio
import gc
import logging
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from muster.api import connections
from muster.api.connections import FIELDS_MOST, HEAD_MOST, ConnectionLimits
from muster.domain.access import Role
from tests.api.site import Site, opened

SOON = 0.3
LATE = 600.0
"""Longer than any test waits: then the clock closes nothing, and the rule in question must."""
GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with opened(tmp_path_factory.mktemp("site")) as site:
        yield site


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _connected(site: Site, **options: int) -> Wire:
    parts = urlsplit(site.url)
    return await asyncio.open_connection(parts.hostname, parts.port, **options)


async def _sent(site: Site, *parts: bytes) -> bytes:
    """All that comes back until the server closes, if it does so before long."""
    reader, writer = await _connected(site)
    try:
        async with asyncio.timeout(20):
            for part in parts:
                writer.write(part)
                await writer.drain()
            writer.write_eof()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def _poured(site: Site, begin: bytes, piece: bytes) -> bytes:
    """What comes back from a server that closes while more is on its way: the caller never ends by itself."""
    wire = await _connected(site)
    answer = asyncio.create_task(_ended(wire))
    wire[1].write(begin)
    sent = 0
    while not answer.done():
        assert sent < 64 * HEAD_MOST, "the server reads on and on"
        wire[1].write(piece)
        sent += len(piece)
        await asyncio.wait([answer], timeout=0.001)
    return await answer


async def _ended(wire: Wire) -> bytes:
    async with asyncio.timeout(20):
        try:
            return await wire[0].read()
        except ConnectionError:
            return b""
        finally:
            wire[1].close()


def _asking(site: Site, path: str) -> bytes:
    shown = f"Authorization: Bearer {site.secrets[Role.VIEWER]}"
    return f"GET {path} HTTP/1.1\r\nHost: here\r\n{shown}\r\n\r\n".encode()


def _statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


# --- what is left -------------------------------------------------------------------------------------


async def test_nothing_is_left_of_a_connection_for_the_garbage_collector(site: Site) -> None:
    gc.collect()
    gc.disable()
    try:
        before = _connections()
        assert _statuses(await _sent(site, GET + b"Connection: close\r\n\r\n")) == [200]
        assert _statuses(await _sent(site, GET + b"\r\n")) == [200]

        async def closed() -> bool:
            return _connections() <= before

        await site.until(closed)
    finally:
        gc.enable()


def _connections() -> int:
    return sum(
        isinstance(each, connections.BoundedConnection | RequestResponseCycle) for each in gc.get_objects()
    )


# --- too much -----------------------------------------------------------------------------------------


async def test_a_head_without_end_is_refused_before_it_fills_the_memory(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", LATE)
    for begin, piece in ((GET + b"X-Long: ", b"x" * 1024), (b"GET /", b"a" * 1024), (GET, b"a: b\r\n" * 100)):
        answer = await _poured(site, begin, piece)
        assert answer == b"" or b"431" in answer.partition(b"\r\n")[0], answer[:200]
        assert not answer or b'"code": "head_too_large"' in answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + b"a: b\r\n" * (FIELDS_MOST - 1), 200),
        (GET + b"a: b\r\n" * FIELDS_MOST, 431),
        (GET + b"a: " + b"x" * (HEAD_MOST - 100) + b"\r\n", 200),
        (GET + b"a: " + b"x" * HEAD_MOST + b"\r\n", 431),
    ],
)
async def test_a_head_may_be_so_large(site: Site, head: bytes, status: int) -> None:
    assert _statuses(await _sent(site, head + b"\r\n")) == [status]


async def test_what_comes_after_a_body_is_not_gathered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trailers and chunk extensions: nothing here reads them, and they have no end either."""
    monkeypatch.setattr(connections, "BODY_SECONDS", LATE)
    begin = b"POST /api/v1/agent/join HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert _statuses(await _sent(site, begin + b"0\r\nX-Trailer: a\r\n\r\n")) in ([], [400])
    for endless in (b"1;x=", b"0\r\nX-Trailer: "):
        assert _statuses(await _poured(site, begin + endless, b"x" * 1024)) in ([], [431])


async def test_a_body_without_end_is_not_read_for_ever(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", LATE)
    monkeypatch.setattr(connections, "UNWANTED_MOST", 4 * HEAD_MOST)
    piece = b"400\r\n" + b"x" * 1024 + b"\r\n"
    for begin, status in ((b"PUT /api/v1/blobs", 401), (b"POST /api/v1/agent/beat", 422)):
        head = begin + b" HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert _statuses(await _poured(site, head, piece)) in ([status], [])


async def test_a_body_that_is_not_read_to_its_end_costs_its_caller_nothing(site: Site) -> None:
    """A caller that sends all before it looks gets its answers, each once."""
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    refused = b"PUT /api/v1/blobs HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert _statuses(await _sent(site, refused, chunk, b"0\r\n\r\n" + GET + b"\r\n")) == [401, 200]


# --- too slow -----------------------------------------------------------------------------------------


async def test_a_caller_that_says_nothing_is_not_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    assert await _ended(await _connected(site)) == b""


async def test_a_head_that_trickles_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    for before in (b"", GET + b"\r\n"):
        wire = await _connected(site)
        reader, writer = wire
        writer.write(before)
        if before:
            await reader.readuntil(b'"ok"}')
        answer = asyncio.create_task(_ended(wire))
        for byte in GET * 1000:
            if answer.done():
                break
            writer.write(bytes([byte]))
            await asyncio.wait([answer], timeout=SOON / 10)
        assert _statuses(await answer) in ([408], []), "a byte on its way at the end resets the connection"


async def test_a_head_that_stops_halfway_is_told_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", SOON)
    wire = await _connected(site)
    wire[1].write(GET)
    assert _statuses(await _ended(wire)) == [408]


async def test_a_body_that_trickles_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", SOON)
    wire = await _connected(site)
    wire[1].write(b"POST /api/v1/agent/join HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n{")
    assert _statuses(await _ended(wire)) == [408]


async def test_a_body_that_trickles_on_after_its_answer_gets_no_second_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", SOON)
    head = b"PUT /api/v1/blobs HTTP/1.1\r\nHost: here\r\n"
    for rest in (b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
        wire = await _connected(site)
        wire[1].write(head + rest)
        answer = await wire[0].readuntil(b"}")
        wire[1].write(b"no chunk")
        assert _statuses(answer + await _ended(wire)) == [401]


async def test_a_reader_that_does_not_read_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", SOON)
    dropped = asyncio.Event()
    lost = connections.BoundedConnection.connection_lost

    def noted(self: connections.BoundedConnection, exc: Exception | None) -> None:
        lost(self, exc)
        dropped.set()

    monkeypatch.setattr(connections.BoundedConnection, "connection_lost", noted)
    for number in range(300):
        await site.store.note("thing", "happened", reason=None, detail="x" * 4000, now=float(number))
    parts = urlsplit(site.url)
    unread = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
    unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    try:
        unread.sendall(_asking(site, "/api/v1/events?limit=1000") * 10)
        async with asyncio.timeout(30):
            await dropped.wait()
    finally:
        unread.close()


# --- too many -----------------------------------------------------------------------------------------


async def _known(site: Site) -> Wire:
    """A connection on which a token was shown."""
    reader, writer = await _connected(site)
    writer.write(_asking(site, "/api/v1/whoami"))
    assert b" 200 " in await reader.readuntil(b"}")
    return reader, writer


async def test_silent_connections_give_way_and_those_with_a_token_stay(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PER_ADDRESS", 5)
    monkeypatch.setattr(connections, "HEAD_SECONDS", LATE)
    operator = await _known(site)
    silent = [await _connected(site) for _ in range(8)]
    for wire in silent[:3]:
        assert await _ended(wire) == b""
    for reader, writer in (operator, await _known(site), silent[-1]):
        writer.write(GET + b"\r\n")
        assert b"200 OK" in await reader.readuntil(b'"ok"}')
        writer.close()
    for _, writer in silent:
        writer.close()


async def test_strangers_leave_descriptors_to_those_that_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptors = 40
    monkeypatch.setattr(connections, "HEAD_SECONDS", LATE)
    monkeypatch.setattr("muster.api.connections.ConnectionLimits", lambda: ConnectionLimits(descriptors))
    async with opened(tmp_path) as site:
        known = [await _known(site) for _ in range(10)]
        strangers = [await _connected(site) for _ in range(descriptors)]
        for reader, writer in [*known, await _known(site)]:
            writer.write(GET + b"\r\n")
            assert b"200 OK" in await reader.readuntil(b'"ok"}')
            writer.close()
        for wire in strangers[: descriptors - descriptors // 4]:
            assert await _ended(wire) == b""
        for _, writer in strangers:
            writer.close()


async def test_a_burst_takes_no_more_descriptors_than_strangers_and_the_server_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop accepts all that wait before it counts the first, and closes a dropped one some turns later.
    The test counts the sockets that this server accepts: other tests share its process."""
    descriptors = 160
    monkeypatch.setattr(connections, "HEAD_SECONDS", LATE)
    monkeypatch.setattr("muster.api.connections.ConnectionLimits", lambda: ConnectionLimits(descriptors))
    accepted: list[socket.socket] = []
    peak = 0
    async with opened(tmp_path) as site:
        parts = urlsplit(site.url)
        server = (str(parts.hostname), int(parts.port or 0))
        accept = socket.socket.accept

        def counting(self: socket.socket) -> tuple[socket.socket, object]:
            nonlocal peak
            connection, address = accept(self)
            if connection.getsockname() == server:
                accepted.append(connection)
                peak = max(peak, sum(each.fileno() >= 0 for each in accepted))
            return connection, address

        monkeypatch.setattr(socket.socket, "accept", counting)
        burst: list[socket.socket] = []
        while len(burst) < 2 * descriptors:
            waiting = min(ConnectionLimits(descriptors).backlog, descriptors)
            burst += [socket.create_connection(server) for _ in range(waiting)]
            async with asyncio.timeout(20):
                while len(accepted) < len(burst):  # noqa: ASYNC110 — turn by turn of the server's own loop
                    await asyncio.sleep(0)
        for each in burst:
            each.close()
    strangers, own = descriptors // 4, descriptors // 4
    assert strangers < peak <= strangers + own


# --- two meanings -------------------------------------------------------------------------------------

POST = b"POST /api/v1/agent/join HTTP/1.1\r\nHost: here\r\n"
HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
FRAMING = {
    "both lengths": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 38\r\n\r\n" + HIDDEN,
    "a list of lengths": POST + b"Content-Length: 0, 38\r\n\r\n" + HIDDEN,
    "a signed length": POST + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "a huge length": POST + b"Content-Length: 99999999999999999999999\r\n\r\n" + HIDDEN,
    "chunked twice": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a coding in disguise": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a blank before the colon": POST + b"Content-Length : 38\r\n\r\n" + HIDDEN,
    "a folded line": POST + b"X: a\r\n Content-Length: 38\r\n\r\n" + HIDDEN,
    "a bare line feed": POST + b"X: a\nContent-Length: 38\r\n\r\n" + HIDDEN,
    "a NUL": POST + b"X: a\0b\r\n\r\n" + HIDDEN,
    "a bad chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + HIDDEN,
    "a huge chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + HIDDEN,
    "no version": b"GET /healthz\r\n\r\n" + HIDDEN,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: here\r\n\r\n" + HIDDEN,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + HIDDEN,
}


MALFORMED = {
    "a chunk": b"Transfer-Encoding: chunked\r\n\r\nno size\r\n",
    "a late chunk": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nno size\r\n",
    "a trailer": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: a\r\n\r\n",
    "a coding": b"Transfer-Encoding: gzip\r\n\r\n",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_body_is_answered_once_with_a_problem(site: Site, body: bytes) -> None:
    for request in (POST, b"PUT /api/v1/blobs HTTP/1.1\r\nHost: here\r\n"):
        answer = await _sent(site, request + body + HIDDEN)
        assert _statuses(answer) == [400], answer
        assert b'"code": "malformed_request"' in answer


async def test_a_malformed_request_does_not_answer_the_one_before_it(site: Site) -> None:
    assert _statuses(await _sent(site, GET + b"\r\n" + b"garbage\r\n\r\n")) in ([], [200], [200, 400])


UPGRADE = b"HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
VERSION = b"Sec-WebSocket-Version: 13\r\n"


@pytest.mark.parametrize(
    "form", [b"", KEY, VERSION, KEY + VERSION.replace(b"13", b"8"), KEY[:-6] + b"\r\n" + VERSION]
)
async def test_a_request_that_is_no_handshake_is_answered_as_any_other(site: Site, form: bytes) -> None:
    answer = await _sent(site, b"GET /api/v1/commands/cmd-1/terminal " + UPGRADE + form + b"\r\n")
    assert _statuses(answer) == [401], answer
    assert b'"code": "unauthenticated"' in answer


async def test_a_handshake_that_is_refused_is_no_error_of_the_server(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await _sent(site, b"GET /api/v1/nowhere " + UPGRADE + KEY + VERSION + b"\r\n")
    assert _statuses(answer) == [404], answer
    assert b'"code": "not_found"' in answer
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_caller_that_keeps_a_large_body_back_is_not_read_on(site: Site) -> None:
    """Its next request would be taken for the body."""
    head = b"POST /api/v1/agent/join HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    wire = await _connected(site)
    wire[1].write(head + b"Expect: 100-Continue\r\nContent-Length: 2000000000\r\n\r\n")
    answer = await _ended(wire)
    assert _statuses(answer) == [413]
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("bytes_", FRAMING.values(), ids=FRAMING)
async def test_bytes_that_proxies_may_read_otherwise_are_refused_and_nothing_after_them_is_read(
    site: Site, bytes_: bytes
) -> None:
    answer = await _sent(site, bytes_)
    assert _statuses(answer) in ([], [400]), answer
    assert not answer or b"connection: close" in answer.lower()
    assert _statuses(await _sent(site, HIDDEN)) == [200], "and the server goes on"
