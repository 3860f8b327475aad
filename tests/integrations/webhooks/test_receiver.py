"""What an answer means, and receivers that don't come to an end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from muster.integrations.webhooks import receiver
from muster.integrations.webhooks.receiver import NotDelivered, Receiver
from muster.integrations.webhooks.tables import Webhook


@asynccontextmanager
async def listening(answer: bytes) -> AsyncIterator[str]:
    """A receiver that answers with these bytes, and then waits for the end of the connection."""
    handlers: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with suppress(ConnectionError):
            await writer.drain()
            await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()
    await asyncio.gather(*handlers)


async def test_a_body_that_never_ends_does_not_hold_up_the_next_message() -> None:
    async with listening(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n") as url:
        asked = Receiver(Webhook(name="ops", url=url))
        async with asyncio.timeout(10):
            await asked.send("ev-1", b"{}", now=1.0)
            await asked.send("ev-2", b"{}", now=1.0)
        await asked.close()


async def test_a_receiver_that_never_answers_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "ANSWER_WITHIN", 0.2)
    async with listening(b"") as url:
        asked = Receiver(Webhook(name="ops", url=url))
        with pytest.raises(NotDelivered) as refused:
            await asked.send("ev-1", b"{}", now=1.0)
        assert refused.value.passing
        await asked.close()


@pytest.mark.parametrize(
    ("status", "passing"),
    [(302, False), (400, False), (404, False), (408, True), (429, True), (500, True), (503, True)],
)
async def test_an_answer_says_whether_the_same_message_may_be_taken_later(status: int, passing: bool) -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(status, headers={"Retry-After": "7"}))
    asked = Receiver(Webhook(name="ops", url="http://127.0.0.1:1/"), transport)
    with pytest.raises(NotDelivered) as refused:
        await asked.send("ev-1", b"{}", now=1.0)
    assert refused.value.passing is passing
    assert refused.value.retry_after == (7.0 if status in {429, 503} else 0.0)
    await asked.close()


@pytest.mark.parametrize(
    ("said", "seconds"), [("0", 0.0), ("3601", 3600.0), ("-5", 0.0), ("soon", 0.0), ("9" * 400, 3600.0)]
)
async def test_a_receiver_asks_for_an_hour_at_most(said: str, seconds: float) -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(503, headers={"Retry-After": said}))
    asked = Receiver(Webhook(name="ops", url="http://127.0.0.1:1/"), transport)
    with pytest.raises(NotDelivered) as refused:
        await asked.send("ev-1", b"{}", now=1.0)
    assert refused.value.retry_after == seconds
    await asked.close()
