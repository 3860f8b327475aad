"""Probes against real servers on loopback: what passes, what fails, and where they never go."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.config.schema import ProbesConfig
from muster.domain.errors import InvalidRequest
from muster.probes import http
from muster.probes.http import LINE_MOST, HttpProber

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT = 0.5


def prober(*allowed: str) -> HttpProber:
    return HttpProber(allowed=allowed or ProbesConfig().allowed, timeout=TIMEOUT)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}/health"


def answering(answer: bytes, asked: list[bytes] | None = None) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if asked is not None:
            asked.append(request)
        writer.write(answer)
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 299 Odd\r\n\r\n", True),
        (b"HTTP/1.1 199 Odd\r\n\r\n", False),
        (b"HTTP/1.1 300 Many\r\n\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", False),
        (b"HTTP/1.1 503 Busy\r\n\r\n", False),
        (b"HTTP/1.1 two hundred\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9\r\n", False),
        (b"", False),
        (b"x" * (LINE_MOST + 1), False),
    ],
)
async def test_only_an_answer_of_success_passes(answer: bytes, passes: bool) -> None:
    async with serving(answering(answer)) as url:
        assert await prober().passes(url) is passes


async def test_a_probe_says_what_it_wants_and_nothing_else() -> None:
    asked: list[bytes] = []
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", asked)) as url:
        assert await prober().passes(f"{url}?deep=1")
    (request,) = asked
    assert request.startswith(b"GET /health?deep=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"authorization" not in request.lower()


async def test_a_server_that_never_answers_costs_a_bounded_time() -> None:
    released = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with serving(silent) as url:
        assert not await asyncio.wait_for(prober().passes(url), timeout=20 * TIMEOUT)
        released.set()


async def test_nobody_there_does_not_pass() -> None:
    async with serving(answering(b"")) as url:
        pass
    assert not await prober().passes(url)


OUTSIDE = [
    "http://169.254.169.254/latest/meta-data/",
    "http://[fe80::1]/",
    "http://8.8.8.8/health",
    "http://[::ffff:169.254.169.254]/",
    "http://0.0.0.0:80/",
]


@pytest.mark.parametrize("url", OUTSIDE)
async def test_an_address_outside_the_allowed_ranges_is_refused_and_never_asked(url: str) -> None:
    with pytest.raises(InvalidRequest, match="allowed"):
        await prober().check(url)
    assert not await prober().passes(url)


async def test_a_name_is_judged_by_what_it_resolves_to() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        named = url.replace("127.0.0.1", "localhost")
        elsewhere = prober("10.0.0.0/8")
        with pytest.raises(InvalidRequest, match="allowed"):
            await elsewhere.check(named)
        assert not await elsewhere.passes(named)
        assert not await elsewhere.passes(url)


async def test_a_name_that_turns_elsewhere_after_it_was_checked_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address that is connected to is one that was looked at, and all of them must be allowed."""
    asked: list[bytes] = []
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", asked)) as url:
        named = url.replace("127.0.0.1", "app.example")

        def rebound(_host: str, _port: int) -> list[tuple[Any, ...]]:
            return [(2, 1, 6, "", ("127.0.0.1", 0)), (2, 1, 6, "", ("169.254.169.254", 0))]

        monkeypatch.setattr(http, "resolve", rebound)
        assert not await prober().passes(named)
    assert asked == []


async def test_names_that_hang_hold_up_no_other_and_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    def resolve(host: str, _port: int) -> list[tuple[Any, ...]]:
        if host.startswith("slow"):
            hang.wait(30.0)
        return [(2, 1, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(http, "resolve", resolve)
    try:
        async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
            one = prober()
            slow = [asyncio.create_task(one.passes(f"http://slow{n}.example/")) for n in range(20)]
            assert await one.passes(url.replace("127.0.0.1", "quick.example"))
            assert await asyncio.to_thread(lambda: "at once") == "at once"
            assert not any(await asyncio.gather(*slow))
    finally:
        hang.set()


async def test_an_ipv4_address_in_ipv6_clothes_is_judged_as_what_it_is() -> None:
    with pytest.raises(InvalidRequest, match="allowed"):
        await prober("::/0").check("http://[::ffff:169.254.169.254]/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1/\r\nHost: other",
        "http://[",
        "http://127.0.0.1/#part",
        "http://127.0.0.1/" + "x" * 3000,
    ],
)
async def test_what_is_no_address_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        await prober().check(url)
    assert not await prober().passes(url)


async def test_a_name_that_does_not_resolve_yet_may_be_enrolled() -> None:
    await prober().check("http://app.invalid:8080/health")
    assert not await prober().passes("http://app.invalid:8080/health")
