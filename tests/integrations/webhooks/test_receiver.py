"""What an answer means, in the words of a webhook."""

import httpx
import pytest

from muster.integrations.webhooks.receiver import NotDelivered, Receiver
from muster.integrations.webhooks.tables import Webhook


async def test_a_receiver_that_cannot_be_reached_may_take_the_message_later() -> None:
    def away(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("https://ops.example/secret-path")

    asked = Receiver(Webhook(name="ops", url="http://127.0.0.1:1/"), httpx.MockTransport(away))
    with pytest.raises(NotDelivered, match=r"^127\.0\.0\.1 can't be reached \(ConnectTimeout\)$") as refused:
        await asked.send("ev-1", b"{}", now=1.0)
    assert refused.value.passing
    await asked.close()


async def test_a_message_says_that_it_is_json_of_muster() -> None:
    seen: list[httpx.Request] = []

    def took(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204, stream=httpx.ByteStream(b""))

    asked = Receiver(Webhook(name="ops", url="http://127.0.0.1:1/"), httpx.MockTransport(took))
    await asked.send("ev-1", b"{}", now=1.0)
    (request,) = seen
    assert (request.headers["Content-Type"], request.headers["User-Agent"]) == ("application/json", "muster")
    assert (request.headers["webhook-id"], request.content) == ("ev-1", b"{}")
    await asked.close()


@pytest.mark.parametrize(
    ("status", "passing"),
    [(302, False), (400, False), (404, False), (408, True), (429, True), (500, True), (503, True)],
)
async def test_an_answer_says_whether_the_same_message_may_be_taken_later(status: int, passing: bool) -> None:
    transport = httpx.MockTransport(
        lambda _request: httpx.Response(status, stream=httpx.ByteStream(b""), headers={"Retry-After": "7"})
    )
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
    transport = httpx.MockTransport(
        lambda _request: httpx.Response(503, stream=httpx.ByteStream(b""), headers={"Retry-After": said})
    )
    asked = Receiver(Webhook(name="ops", url="http://127.0.0.1:1/"), transport)
    with pytest.raises(NotDelivered) as refused:
        await asked.send("ev-1", b"{}", now=1.0)
    assert refused.value.retry_after == seconds
    await asked.close()
