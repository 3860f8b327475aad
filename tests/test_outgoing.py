"""One address that gets small bodies: its connection, and answers that don't come to an end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from muster import outgoing
from muster.outgoing import READ_MOST, NoAnswer, Outgoing


class Address:
    def __init__(self, answer: bytes) -> None:
        self.url = ""
        self._answer = answer
        self.handlers: list[asyncio.Task[None]] = []
        self.asked: list[bytes] = []

    @property
    def connections(self) -> int:
        return len(self.handlers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.handlers.append(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.asked.append(head.splitlines()[0])
                await reader.readexactly(2)
                writer.write(self._answer)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[Address, Outgoing]]:
    address = Address(answer)
    server = await asyncio.start_server(address.serve, "127.0.0.1", 0)
    address.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    asked = Outgoing(address.url, {})
    async with server, asyncio.timeout(10):
        yield address, asked
        await asked.close()
        await asyncio.gather(*address.handlers)


def ok(size: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size


async def sent(asked: Outgoing, times: int) -> Sequence[int]:
    return [(await asked.post(b"{}")).status_code for _ in range(times)]


@pytest.mark.parametrize(("size", "connections"), [(0, 1), (READ_MOST, 1), (READ_MOST + 1, 3)])
async def test_a_connection_is_kept_unless_its_answers_are_long(size: int, connections: int) -> None:
    async with answering(ok(size) + b"x" * size) as (address, asked):
        assert await sent(asked, 3) == [200, 200, 200]
        assert address.connections == connections


async def test_a_body_that_never_ends_does_not_hold_up_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "READ_WITHIN", 0.05)
    async with answering(ok(1000)) as (address, asked):
        assert await sent(asked, 2) == [200, 200]
        assert address.connections == 2


async def test_an_address_that_never_answers_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "ANSWER_WITHIN", 0.2)
    async with answering(b"") as (_, asked):
        with pytest.raises(NoAnswer):
            await asked.post(b"{}")


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "xn--", "\u2025.example"])
async def test_what_can_be_no_name_of_a_host_gives_no_answer(host: str) -> None:
    asked = Outgoing(f"http://{host}/", {})
    with pytest.raises(NoAnswer):
        await asked.post(b"{}")
    await asked.close()


async def test_a_redirect_is_not_followed() -> None:
    answer = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with answering(answer) as (address, asked):
        assert await sent(asked, 1) == [307]
        assert address.asked == [b"POST / HTTP/1.1"]
