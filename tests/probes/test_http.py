"""Probes against real servers on loopback: what passes, what fails, and where they never go."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address, ip_network

import pytest

from muster.config.schema import ProbesConfig
from muster.domain.errors import InvalidRequest
from muster.probes import addresses
from muster.probes.addresses import METADATA, RESOLVERS, Address
from muster.probes.http import LINE_MOST, HttpProber
from tests.probes.certificates import self_signed

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT = 1.0


def prober(*allowed: str, timeout: float = TIMEOUT) -> HttpProber:
    return HttpProber(allowed=allowed or ProbesConfig().allowed, timeout=timeout)


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/health"


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


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return self_signed(tmp_path_factory.mktemp("tls"))


async def test_a_self_signed_certificate_is_good_enough(tls: ssl.SSLContext) -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n"), tls) as url:
        assert await prober().passes(url)


@contextmanager
def silent(tls: ssl.SSLContext | None) -> Iterator[str]:
    """A frozen server: it accepts, shakes hands if that is the custom, and says nothing, not even goodbye."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def welcome() -> None:
            with suppress(OSError):
                guest, _ = door.accept()
                taken.append(guest)
                if tls is not None:
                    taken.append(tls.wrap_socket(guest, server_side=True))

        threading.Thread(target=welcome, daemon=True).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{door.getsockname()[1]}/health"
    for each in taken:
        each.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_server_that_never_answers_costs_a_bounded_time(tls: ssl.SSLContext, scheme: str) -> None:
    with silent(tls if scheme == "https" else None) as url:
        assert not await asyncio.wait_for(prober().passes(url), timeout=6 * TIMEOUT)


async def test_an_address_without_a_server_does_not_pass() -> None:
    async with serving(answering(b"")) as url:
        pass
    assert not await prober().passes(url)


OUTSIDE = [
    "http://169.254.169.254/latest/meta-data/",
    "http://[fe80::1]/",
    "http://8.8.8.8/health",
    "http://[::ffff:169.254.169.254]/",
    "http://0.0.0.0:80/",
    "http://[fd00:ec2::254]/latest/",
    "http://[fd00:ec2::23]/v1/credentials",
    "http://[fd20:ce::254]/computeMetadata/v1/",
    "http://[fd00:c1::a9fe:a9fe]/opc/v2/",
    "http://[fd00:42::42]/conf",
    "http://[64:ff9b::a9fe:a9fe]/",
]
EVERYWHERE = ("0.0.0.0/0", "::/0")


@pytest.mark.parametrize("url", OUTSIDE)
async def test_an_address_outside_the_allowed_ranges_is_refused_and_never_asked(url: str) -> None:
    with pytest.raises(InvalidRequest, match="allowed"):
        await prober().check(url)
    assert not await prober().passes(url)


@pytest.mark.parametrize("place", METADATA)
async def test_where_clouds_tell_their_secrets_is_only_asked_if_named_by_itself(place: str) -> None:
    first = ip_network(place).network_address
    url = f"http://[{first}]/" if first.version == 6 else f"http://{first}/"
    around = str(ip_network(place).supernet())
    for too_wide in (EVERYWHERE, (around,), ProbesConfig().allowed):
        with pytest.raises(InvalidRequest, match="allowed"):
            await prober(*too_wide).check(url)
    await prober(place).check(url)
    await prober(f"{first}/{first.max_prefixlen}").check(url)


@pytest.mark.parametrize(
    "url", ["http://[64:ff9b::a9fe:a9fe]/", "http://[::ffff:169.254.169.254]/", "http://[fe80::1]/"]
)
async def test_no_clothes_hide_where_clouds_tell_their_secrets(url: str) -> None:
    with pytest.raises(InvalidRequest, match="allowed"):
        await prober(*EVERYWHERE).check(url)


@pytest.mark.parametrize(
    "url", ["http://[fd00:ec3::254]/", "http://[64:ff9b::808:808]/", "http://100.100.100.201/"]
)
async def test_their_neighbours_are_asked_if_allowed(url: str) -> None:
    await prober(*EVERYWHERE).check(url)


async def test_a_name_is_judged_by_what_it_resolves_to() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        named = url.replace("127.0.0.1", "localhost")
        elsewhere = prober("10.0.0.0/8")
        with pytest.raises(InvalidRequest, match="allowed"):
            await elsewhere.check(named)
        assert not await elsewhere.passes(named)
        assert not await elsewhere.passes(url)


@pytest.mark.parametrize("name", ["a..b", "a" * 64, f"{'a' * 64}.example"])
async def test_what_can_be_no_name_of_a_host_is_a_name_without_addresses(name: str) -> None:
    one = prober()
    await one.check(f"http://{name}/")
    assert not await one.passes(f"http://{name}/")


async def test_a_name_that_turns_elsewhere_after_it_was_checked_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address that is connected to is one that was looked at, and all of them must be allowed."""
    asked: list[bytes] = []
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", asked)) as url:
        named = url.replace("127.0.0.1", "app.example")

        def rebound(_host: str) -> list[Address]:
            return [ip_address("127.0.0.1"), ip_address("169.254.169.254")]

        monkeypatch.setattr(addresses, "resolve", rebound)
        assert not await prober().passes(named)
    assert asked == []


class Lookups:
    """Names that lead to this machine. Those called slow hang until released, and those told to later do."""

    def __init__(self) -> None:
        self.hanging: set[str] = set()
        self.asked: list[str] = []
        self.hung = threading.Semaphore(0)
        self.ended = threading.Event()

    def resolve(self, host: str) -> list[Address]:
        self.asked.append(host)
        if host.startswith("slow") or host in self.hanging:
            self.hung.release()
            self.ended.wait(30.0)
        return [ip_address("127.0.0.1")]


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lookups]:
    found = Lookups()
    monkeypatch.setattr(addresses, "resolve", found.resolve)
    yield found
    found.ended.set()


async def hang(one: HttpProber, lookups: Lookups, count: int) -> list[asyncio.Task[bool]]:
    """Probes whose names hang, as far as there are threads for them."""
    tasks = [asyncio.create_task(one.passes(f"http://slow{n}.example:1/")) for n in range(count)]
    for _ in range(min(count, RESOLVERS)):
        assert await asyncio.to_thread(lookups.hung.acquire, timeout=30.0)
    return tasks


@pytest.mark.parametrize("slow", [RESOLVERS - 1, RESOLVERS, RESOLVERS + 1])
async def test_names_that_hang_hold_up_no_other_and_no_other_thread(lookups: Lookups, slow: int) -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        one = prober(timeout=6 * TIMEOUT)
        quick = url.replace("127.0.0.1", "quick.example")
        assert await one.passes(quick)
        hung = await hang(one, lookups, slow)
        assert await one.passes(quick)
        assert await asyncio.to_thread(lambda: "at once") == "at once"
        lookups.ended.set()
        assert not any(await asyncio.gather(*hung))


async def test_as_many_names_as_are_probed_at_once_may_hang_and_a_new_one_is_looked_up(
    lookups: Lookups,
) -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        one = prober(timeout=20 * TIMEOUT)
        hung = await hang(one, lookups, RESOLVERS - 1)
        assert await one.passes(url.replace("127.0.0.1", "new.example"))
        lookups.ended.set()
        assert not any(await asyncio.gather(*hung))


async def test_a_name_that_hangs_is_looked_up_once_and_fails_at_once_until_that_ends(
    lookups: Lookups,
) -> None:
    one = prober()
    assert not await one.passes("http://slow.example/")
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert not any([await one.passes("http://slow.example/") for _ in range(20)])
    assert loop.time() - began < 20 * TIMEOUT / 2
    assert lookups.asked == ["slow.example"]


async def test_a_service_whose_name_begins_to_hang_is_asked_where_it_was_for_a_while(
    lookups: Lookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        one, named = prober(timeout=6 * TIMEOUT), url.replace("127.0.0.1", "app.example")
        assert await one.passes(named)
        lookups.hanging.add("app.example")
        assert await one.passes(named)
        monkeypatch.setattr(addresses, "REMEMBERED", 0.0)
        assert not await one.passes(named)


async def test_a_service_whose_name_server_fails_is_asked_where_it_was_for_a_while(
    lookups: Lookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_host: str) -> list[Address]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again later")

    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        one, named = prober(timeout=6 * TIMEOUT), url.replace("127.0.0.1", "app.example")
        assert await one.passes(named)
        monkeypatch.setattr(addresses, "resolve", failing)
        assert [await one.passes(named) for _ in range(3)] == [True] * 3
        monkeypatch.setattr(addresses, "REMEMBERED", 0.0)
        assert not await one.passes(named)


async def test_a_service_whose_name_leads_nowhere_any_more_is_not_asked_where_it_was(
    lookups: Lookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_host: str) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        one, named = prober(timeout=6 * TIMEOUT), url.replace("127.0.0.1", "app.example")
        assert await one.passes(named)
        monkeypatch.setattr(addresses, "resolve", gone)
        assert not await one.passes(named)
        monkeypatch.setattr(addresses, "resolve", lookups.resolve)
        lookups.hanging.add("app.example")
        assert not await one.passes(named)


async def test_a_service_that_listens_at_one_of_its_addresses_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose name has an address of each family, and that serves only one."""
    both = [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
        named = url.replace("127.0.0.1", "app.example")
        for order in (both, both[::-1]):
            monkeypatch.setattr(addresses, "resolve", lambda _host, found=order: found)
            assert await prober().passes(named)
        monkeypatch.setattr(addresses, "resolve", lambda _host: both[:1])
        assert not await prober().passes(named)


async def test_an_address_that_never_answers_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def by_address(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("sockname")[0] == "127.0.0.1":
            await answering(b"HTTP/1.1 200 OK\r\n\r\n")(reader, writer)
        else:
            await reader.read()
            writer.close()

    monkeypatch.setattr(
        addresses, "resolve", lambda _host: [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    )
    server = await asyncio.start_server(by_address, ["127.0.0.1"], 0)
    port = server.sockets[0].getsockname()[1]
    silent = await asyncio.start_server(by_address, ["127.0.0.2"], port)
    async with server, silent:
        assert await prober().passes(f"http://app.example:{port}/health")


async def test_the_first_address_that_says_anything_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    busy = answering(b"HTTP/1.1 503 Busy\r\n\r\n", asked)
    monkeypatch.setattr(addresses, "resolve", lambda _host: [ip_address("127.0.0.1")] * 2)
    async with serving(busy) as url:
        assert not await prober().passes(url.replace("127.0.0.1", "app.example"))
    assert len(asked) == 1


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
