"""The client against servers that break off, and against none at all."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from muster.client import CannotReach, ServerProblem, SyncClient, calls
from muster.client.reconnects import ConnectionChange, Reconnects
from muster.domain.access import Role
from muster.domain.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from muster.domain.requests import ProvisionRequest
from tests.harness.async_client import AsyncClient

ASKED = ProvisionRequest(template="ci", count=1, run="run-1")
OPERATION = {
    "operation_id": "op-1",
    "kind": "provision",
    "status": "queued",
    "started_at": "2026-05-04T09:30:00Z",
    "updated_at": "2026-05-04T09:30:00Z",
    "deadline_at": "2026-05-04T09:30:00Z",
    "detail": {},
}
Handler = Callable[[httpx.Request], httpx.Response]


def _problem(status: int, code: str, **more: object) -> httpx.Response:
    body = {"status": status, "code": code, "title": "no", "detail": "cannot do it", **more}
    return httpx.Response(status, json=body)


def _client(handler: Handler, slept: list[float] | None = None) -> SyncClient:
    sleep = (slept if slept is not None else []).append
    return SyncClient("http://muster.test", "secret", transport=httpx.MockTransport(handler), sleep=sleep)


class _Cut(httpx.SyncByteStream):
    """A body that breaks off."""

    def __init__(self, *pieces: bytes, broken: bool = True) -> None:
        self._pieces = pieces
        self._broken = broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._broken:
            raise httpx.ReadError("connection reset")


def test_an_address_without_a_server_is_one_sentence_that_says_what_to_do() -> None:
    slept: list[float] = []
    with (
        SyncClient("http://127.0.0.1:9", "secret", sleep=slept.append) as client,
        pytest.raises(CannotReach, match=r"cannot reach the server at http://127.0.0.1:9: start it with"),
    ):
        client.send(calls.nodes())
    assert len(slept) == 3


async def test_the_same_holds_for_those_who_wait() -> None:
    async def no_pause(_seconds: float) -> None:
        return None

    async with AsyncClient("http://127.0.0.1:9", sleep=no_pause) as client:
        with pytest.raises(CannotReach):
            await client.send(calls.nodes())
        with pytest.raises(CannotReach):
            await anext(client.stream(calls.watch("op-1")))
        with pytest.raises(CannotReach):
            await anext(client.follow("cmd-1"))


def test_a_lost_reply_is_asked_for_again_with_the_same_key() -> None:
    keys = []

    def flaky(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx.ReadError("connection reset")
        if len(keys) == 2:
            return _problem(503, "store_unavailable")
        return httpx.Response(202, json=OPERATION)

    with _client(flaky) as client:
        assert client.send(calls.provision(ASKED)).operation_id == "op-1"
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_call_that_may_not_be_repeated_is_made_once() -> None:
    asked = []

    def broken(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.ReadError("connection reset")

    with _client(broken) as client, pytest.raises(CannotReach):
        client.send(calls.make_token("x", Role.VIEWER))
    assert len(asked) == 1


def test_a_refusal_is_not_repeated() -> None:
    asked = []

    def refusing(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return _problem(422, "invalid_request", field="count", value="3", rule="must be a whole number")

    with _client(refusing) as client, pytest.raises(InvalidRequest) as refused:
        client.send(calls.provision(ASKED))
    assert (refused.value.field, refused.value.rule) == ("count", "must be a whole number")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_problem(404, "not_found", what="node", name="n"), NotFound),
        (_problem(404, "not_found"), ServerProblem),
        (_problem(409, "conflict"), Conflict),
        (_problem(503, "store_unavailable"), StoreUnavailable),
        (_problem(418, "teapot"), ServerProblem),
        (httpx.Response(502, text="<html>bad gateway</html>"), ServerProblem),
        (httpx.Response(302, headers={"location": "http://elsewhere.test"}), ServerProblem),
        (httpx.Response(500, json=[1, 2]), ServerProblem),
    ],
)
def test_errors_come_back_as_what_they_are(answer: httpx.Response, error: type[Exception]) -> None:
    with _client(lambda _request: answer) as client, pytest.raises(error):
        client.send(calls.node("n"))


def test_answers_of_older_and_newer_servers_are_read() -> None:
    newer = {**OPERATION, "mood": "good", "detail": {"run": "run-1", "colour": "red"}}
    found = calls.operation("op-1").read(json.dumps(newer).encode())
    assert (found.detail.run, found.parts, found.steps, found.version) == ("run-1", (), (), 0)


@pytest.mark.parametrize(
    ("answer", "said"), [(b"<html>", "malformed"), (b'{"items": [{}]}', "missing required field `id`")]
)
def test_an_answer_that_cannot_be_read_is_told_with_its_field(answer: bytes, said: str) -> None:
    with (
        _client(lambda _request: httpx.Response(200, content=answer)) as client,
        pytest.raises(ServerProblem, match=f"cannot use the server's answer: .*{said}"),
    ):
        client.send(calls.nodes())


def test_the_token_is_sent_and_never_shown() -> None:
    seen = []

    def look(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, json={"items": [], "next": None})

    with _client(look) as client:
        client.send(calls.nodes())
        assert "secret" not in repr(client._target)
    assert seen == ["Bearer secret"]


def _event(number: int, *, place: str | None) -> bytes:
    data = {
        "id": f"ev-{number}",
        "at": "2026-05-04T09:30:00Z",
        "entity": "node",
        "entity_id": "n",
        "version": 1,
        "name": "x",
    }
    named = f"id: {place}\n" if place else ""
    return f"event: x\n{named}data: {json.dumps({**data, 'changes': {}})}\n\n".encode()


def test_a_broken_stream_is_taken_up_after_the_last_event_and_nothing_comes_twice() -> None:
    places: list[str | None] = []
    first = (b": hello\n\n", _event(1, place="c1"), _event(2, place=None), b"event: x\nda")
    second = (_event(2, place=None), _event(3, place="c3"))

    def serve(request: httpx.Request) -> httpx.Response:
        places.append(request.headers.get("last-event-id"))
        assert request.headers["accept"] == "text/event-stream"
        stream = [_Cut(*first), _Cut(*second)][min(len(places), 2) - 1]
        return httpx.Response(200, stream=stream)

    with _client(serve) as client:
        following = client.stream(calls.follow_events())
        assert [next(following).id for _ in range(3)] == ["ev-1", "ev-2", "ev-3"]
        following.close()  # type: ignore[attr-defined]
    assert places == [None, "c1"]


def test_a_watched_operation_ends_with_its_end_and_not_with_the_connection() -> None:
    asked = []

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("last-event-id"))
        status = "succeeded" if len(asked) == 3 else "running"
        data = json.dumps({**OPERATION, "status": status})
        body = f"event: progress\nid: {len(asked)}\ndata: {data}\n\n".encode()
        return httpx.Response(200, stream=_Cut(body, broken=len(asked) == 1))

    with _client(serve) as client:
        shown = [progress.status for progress in client.stream(calls.watch("op-1"))]
    assert shown == ["running", "running", "succeeded"]
    assert asked == [None, "1", "2"]


def test_output_is_followed_across_breaks_without_a_byte_lost_or_doubled() -> None:
    whole = b"0123456789"
    offsets: list[int] = []
    command = {
        "id": "c",
        "operation_id": "o",
        "assignment_id": "a",
        "node_id": "n",
        "run": "r",
        "ordinal": 0,
        "count": 1,
        "argv": [],
        "version": 1,
        "created_at": "2026-05-04T09:30:00Z",
    }

    def serve(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/output"):
            ended = offsets[-1] >= 6
            state = {"state": "exited", "exit_status": 0} if ended else {"state": "running"}
            return httpx.Response(200, json={**command, **state})
        offset = int(request.url.params["offset"])
        if "follow" not in request.url.params:
            return httpx.Response(200, content=whole[offset:])
        offsets.append(offset)
        piece = whole[offset : offset + 3]
        return httpx.Response(200, stream=_Cut(piece, broken=offset == 0))

    with _client(serve) as client:
        assert b"".join(client.follow("c")) == whole
    assert offsets == [0, 3, 6, 9]


def test_ids_cannot_leave_their_place_in_the_path() -> None:
    assert calls.operation("../tokens").path == "/api/v1/operations/..%2Ftokens"
    assert calls.node("a?b#c").path == "/api/v1/nodes/a%3Fb%23c"


@pytest.mark.parametrize("outage", [1, 5])
def test_a_lost_server_is_told_once_and_again_when_it_is_back(outage: int) -> None:
    told: list[ConnectionChange] = []
    asked = []

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if 1 < len(asked) <= 1 + outage:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, stream=_Cut(_event(len(asked), place=f"c{len(asked)}")))

    transport = httpx.MockTransport(serve)
    with SyncClient(
        "http://muster.test", transport=transport, sleep=lambda _: None, on_change=told.append
    ) as client:
        following = client.stream(calls.follow_events())
        next(following)
        assert told == []
        next(following)
        following.close()  # type: ignore[attr-defined]
    assert [each.back for each in told] == [False, True]
    assert told[0].url == "http://muster.test" and told[0].patience == 300.0


def test_a_server_that_never_was_there_is_not_called_lost() -> None:
    told: list[ConnectionChange] = []

    def unreachable(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    transport = httpx.MockTransport(unreachable)
    with (
        SyncClient(
            "http://muster.test", transport=transport, sleep=lambda _: None, on_change=told.append
        ) as client,
        pytest.raises(CannotReach),
    ):
        next(client.stream(calls.follow_events()))
    assert told == []


def test_streams_that_break_together_are_one_break_and_patience_is_measured_in_time() -> None:
    told: list[ConnectionChange] = []
    now = [0.0]
    breaks = Reconnects("http://muster.test", told.append, clock=lambda: now[0])
    streams = [breaks.attempt(tries=4) for _ in range(3)]
    for each in streams:
        each.connected()
    assert all(each.failed() for each in streams) and len(told) == 1
    now[0] = 299.0
    assert streams[0].failed()
    now[0] = 300.0
    assert not streams[0].failed()
    streams[1].connected()
    streams[2].connected()
    assert [each.back for each in told] == [False, True]
    now[0] = 1000.0
    assert streams[1].failed() and streams[1].number == 1, "a quiet stream that held is as patient as before"
