import asyncio
import json
import re
import socket
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest

from muster.api import connections, histories, streams
from muster.api.access import LOOK_AGAIN, Credentials, Permit
from muster.api.context import SHUTDOWN, Context
from muster.api.feed_pages import PAGE, FeedPages
from muster.api.histories import Histories
from muster.api.transport import JoiningTransport
from muster.client import calls
from muster.domain.access import Role
from muster.domain.errors import CursorLost, InvalidRequest, NotFound
from muster.domain.events import Draft, Entity, Event
from muster.domain.ids import OperationId
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.ports.commits import Written
from muster.ports.store import Page, Store
from muster.stores import cursors
from muster.stores.wakeups import LocalWakeups
from muster.wire import events as wire
from tests.api.site import Site
from tests.operations.test_single_flight import ManualClock

SSE = {"Accept": "text/event-stream"}


def _messages(text: str) -> list[dict[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith((":", "retry"))
        )
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


async def test_an_operation_is_told_from_its_beginning_to_its_end(site: Site) -> None:
    client = site.client()
    operation = await client.send(calls.provision(ProvisionRequest(template="ci", count=2, run="run-1")))
    live = [progress async for progress in client.stream(calls.watch(operation.operation_id))]
    later = [progress async for progress in client.stream(calls.watch(operation.operation_id))]
    assert later == live
    assert live[0].status is Status.QUEUED
    assert live[-1].status is Status.SUCCEEDED
    steps = [progress.step or 0 for progress in live]
    assert steps == sorted(steps)
    assert live[-1].elapsed_seconds >= live[0].elapsed_seconds


class _Counting:
    """The site's store, and how often its events were read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    async def events(self, **given: Any) -> Page[Event]:
        self.reads += 1
        return await self._store.events(**given)


async def test_followers_of_one_operation_share_what_is_read_of_it(site: Site) -> None:
    operation = await site.provisioned(site.client())
    counting = _Counting(site.ports.store)
    shared = Histories(cast(Store, counting), site.ports.clock)
    operation_id = OperationId(operation.operation_id)
    with shared.follow(operation_id) as first, shared.follow(operation_id) as second:
        assert first is second
        await asyncio.gather(*(first.look(0) for _ in range(50)))
        assert counting.reads == 1, "those who ask together"
        assert [step.ended for step in first.steps][-2:] == [False, True]
        told = list(first.steps)
        assert await second.look(len(told)), "the store was asked"
        assert first.steps == told, "nothing is told twice"
    with shared.follow(operation_id) as anew:
        assert anew is not first, "nothing is kept without a follower"


async def test_what_this_process_wrote_itself_is_not_read_again(site: Site) -> None:
    operation = await site.provisioned(site.client())
    counting = _Counting(site.ports.store)
    shared = Histories(cast(Store, counting), site.ports.clock)
    operation_id = OperationId(operation.operation_id)
    with shared.follow(operation_id) as history:
        await history.look(0)
        known, record = len(history.steps), await site.ports.store.operation(operation_id)
        told = history.steps[-1]
        shared.saw([written(replace(record, version=told.version + 1))])
        assert not await history.look(known), "it needs no read"
        assert [step.version for step in history.steps[known:]] == [told.version + 1]
        shared.saw([written(replace(record, version=told.version + 3))])
        assert await history.look(known + 1), "another process wrote the version in between"
        assert len(history.steps) == known + 1


async def test_the_first_follower_of_what_this_process_submitted_reads_nothing(site: Site) -> None:
    operation = await site.provisioned(site.client())
    operation_id = OperationId(operation.operation_id)
    counting = _Counting(site.ports.store)
    shared = Histories(cast(Store, counting), site.ports.clock)
    with shared.follow(operation_id) as history:
        await history.look(0)
        told = list(history.steps)
    record = await site.ports.store.operation(operation_id)
    reads = counting.reads

    for version in (1, 2):
        shared.saw([written(replace(record, version=version))])
    assert shared.begun(operation_id) == replace(record, version=2)
    with shared.follow(operation_id) as history:
        assert shared.begun(operation_id) is None, "its follower has it"
        assert not await history.look(0)
        assert [step.version for step in history.steps] == [1, 2]
        assert counting.reads == reads
        assert await history.look(2), "what others wrote since is read, as before"
        assert [step.version for step in history.steps] == [1, 2, *(step.version for step in told[2:])]

    for version in (1, 3):
        shared.saw([written(replace(record, version=version))])
    with shared.follow(operation_id) as history:
        assert await history.look(0), "another process wrote the second version"
        assert history.steps == told


async def test_who_follows_what_was_submitted_here_is_admitted_without_a_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[OperationId] = []
    operation = site.ports.store.operation

    async def noted(operation_id: OperationId) -> Operation:
        read.append(operation_id)
        return await operation(operation_id)

    monkeypatch.setattr(site.ports.store, "operation", noted)
    client = site.client()
    made = await client.send(calls.provision(ProvisionRequest(template="ci", count=1, run="run-1")))
    for reads in (0, 1):
        told = [progress async for progress in client.stream(calls.watch(made.operation_id))]
        assert told[-1].status is Status.SUCCEEDED
        assert read.count(OperationId(made.operation_id)) == reads, "who comes later reads it"


async def test_few_operations_are_kept_for_followers_that_may_never_come(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "BEGUN_MOST", 2)
    operation = await site.provisioned(site.client())
    record = replace(await site.ports.store.operation(OperationId(operation.operation_id)), version=1)
    kept = Histories(site.ports.store, site.ports.clock)
    ids = [OperationId(f"op-{number}") for number in range(3)]
    kept.saw([written(replace(record, id=each)) for each in ids])
    for operation_id, steps in zip(ids, (0, 1, 1), strict=True):
        with kept.follow(operation_id) as history:
            with suppress(NotFound):
                await history.look(0)
            assert len(history.steps) == steps


def written(operation: Operation) -> Written:
    draft = Draft(
        entity=Entity.OPERATION,
        entity_id=operation.id,
        version=operation.version,
        name="progressed",
        changes={},
    )
    return Written(draft=draft, record=operation)


async def test_an_operations_stream_goes_on_after_the_last_event_seen(site: Site) -> None:
    operation = await site.provisioned(site.client())
    path = f"/api/v1/operations/{operation.operation_id}/events"
    whole = _messages((await site.http().get(path)).text)
    for place, message in enumerate(whole):
        answer = await site.http().get(path, headers={"Last-Event-ID": message["id"]})
        assert _messages(answer.text) == whole[place + 1 :]


@pytest.mark.parametrize("place", ["x", "-1", "1.5", "9" * 100])
async def test_a_place_that_is_none_is_refused(site: Site, place: str) -> None:
    operation = await site.provisioned(site.client())
    path = f"/api/v1/operations/{operation.operation_id}/events"
    answer = await site.http().get(path, headers={"Last-Event-ID": place})
    assert (answer.status_code, answer.json()["field"]) == (422, "Last-Event-ID")
    feed = await site.http().get("/api/v1/events", headers={**SSE, "Last-Event-ID": place})
    assert (feed.status_code, feed.json()["field"]) == (422, "cursor")


@pytest.mark.parametrize("headers", [{}, SSE], ids=["page", "stream"])
async def test_a_place_of_a_history_that_the_store_lost_says_to_begin_anew(
    site: Site, headers: dict[str, str]
) -> None:
    await site.provisioned(site.client())
    beyond = cursors.encode("events", 10**6, 5.0)
    answer = await site.http().get("/api/v1/events", params={"cursor": beyond}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (410, "cursor_lost")
    with pytest.raises(CursorLost, match="restored or replaced"):
        await site.client().send(calls.events(cursor=beyond))


async def test_a_stream_of_an_unknown_operation_is_not_found(site: Site) -> None:
    with pytest.raises(NotFound):
        await anext(site.client().stream(calls.watch("op-none")))


async def test_the_feed_is_read_in_pages_and_goes_on_where_it_stopped(site: Site) -> None:
    client = site.client()
    await site.provisioned(client, count=2)
    whole = (await client.send(calls.events(limit=1000))).items
    assert len(whole) > 10
    read: list[object] = []
    cursor: str | None = None
    while True:
        page = await client.send(calls.events(cursor=cursor, limit=3))
        cursor = page.next
        read += page.items
        if not page.items:
            break
    assert read == list(whole)


async def test_the_feed_of_one_entity_has_its_events_alone(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    node_id = operation.members[0].node_id
    events = (await client.send(calls.events(entity_id=node_id))).items
    assert {event.entity_id for event in events} == {node_id}
    assert [event.version for event in events] == sorted(event.version for event in events)


async def test_the_feed_is_followed_live_and_each_event_comes_once(site: Site) -> None:
    client = site.client(Role.VIEWER)
    seen = []

    async def follow() -> None:
        async for event in client.stream(calls.follow_events()):
            seen.append(event.id)
            if event.name == "ended":
                return

    following = asyncio.create_task(follow())
    await site.provisioned(site.client(), count=2)
    await asyncio.wait_for(following, 20)
    assert len(seen) == len(set(seen))
    stored = (await site.client().send(calls.events(limit=1000))).items
    assert seen == [event.id for event in stored][: len(seen)]


async def test_the_feed_goes_on_after_a_cursor(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    page = await client.send(calls.events(limit=5))
    stream = client.stream(calls.follow_events(last=page.next))
    rest = (await client.send(calls.events(cursor=page.next, limit=1))).items
    assert (await anext(stream)).id == rest[0].id
    await stream.aclose()  # type: ignore[attr-defined]


async def test_streams_end_when_the_server_stops(site: Site) -> None:
    site.lazy = True
    client = site.client()
    asked = ProvisionRequest(template="ci", count=1, run="run-1")
    operation = await client.send(calls.provision(asked))
    http = site.http()
    paths = ("/api/v1/events", f"/api/v1/operations/{operation.operation_id}/events")
    pending = [asyncio.create_task(http.get(path, headers=SSE)) for path in paths]

    async def open_now() -> bool:
        listening = site.ports.wakeups._listeners  # type: ignore[attr-defined]
        return len(listening.get(SHUTDOWN, {})) == len(pending)

    await site.until(open_now)
    site.api.close()
    for answer in await asyncio.wait_for(asyncio.gather(*pending), 5):
        assert answer.status_code == 200


async def test_lists_are_read_in_pages_without_gaps_or_repeats(site: Site) -> None:
    client = site.client()
    asked = [ProvisionRequest(template="ci", count=1, run=f"run-{number}") for number in range(7)]
    made = [await client.send(calls.provision(request)) for request in asked]
    read, cursor = [], None
    while True:
        page = await client.send(calls.operations(cursor=cursor, limit=2))
        read += [operation.operation_id for operation in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert read == [operation.operation_id for operation in reversed(made)]
    one = await client.send(calls.operations(run="run-3"))
    assert [operation.run for operation in one.items] == ["run-3"]
    assert (await client.send(calls.operations(kind="release"))).items == ()
    for operation in made:
        await site.ended(client, operation)
    assert (await client.send(calls.operations(status=["queued", "running"]))).items == ()
    nodes, cursor = [], None
    while True:
        part = await client.send(calls.nodes(cursor=cursor, limit=3))
        nodes += [node.id for node in part.items]
        cursor = part.next
        if cursor is None:
            break
    assert len(nodes) == len(set(nodes)) == 7


async def test_a_cursor_of_another_list_is_refused(site: Site) -> None:
    client = site.client()
    page = await client.send(calls.events(limit=1))
    with pytest.raises(InvalidRequest, match="cursor"):
        await client.send(calls.operations(cursor=page.next))


async def test_the_last_events_are_had_without_the_ones_before(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    whole = (await client.send(calls.events(limit=1000))).items
    end = await client.send(calls.last_events(2))
    assert len(whole) > 2 and end.items == whole[-2:]
    of_it = await client.send(calls.last_events(1000, entity_id=operation.operation_id))
    assert of_it.items == tuple(event for event in whole if event.entity_id == operation.operation_id)
    http = site.http()
    for query in ("last=0", "last=10001", f"last=5&cursor={end.next}"):
        refused = await http.get(f"/api/v1/events?{query}")
        assert (refused.status_code, refused.json()["field"]) == (422, "last"), query


async def test_a_stream_ends_soon_after_the_token_that_opened_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only then: the one who is still let in reads on."""
    monkeypatch.setattr("muster.api.access.LOOK_AGAIN", 0.0)
    admin = site.client(Role.ADMIN)
    token = await admin.send(calls.make_token("guest", Role.VIEWER))
    guest, other = site.http(token.secret), site.http(site.secrets[Role.VIEWER])

    async def read(http: httpx.AsyncClient, until: str) -> str:
        text = ""
        async with http.stream("GET", "/api/v1/events", headers=SSE) as answer:
            async for part in answer.aiter_text():
                text += part
                if until in text:
                    break
        return text

    async with asyncio.timeout(30):
        reading = [asyncio.create_task(read(http, '"after"')) for http in (guest, other)]
        await site.store.note("thing", "before", reason=None, detail="", now=1.0)
        await admin.send(calls.revoke_token(token.id))
        await site.store.note("thing", "after", reason=None, detail="", now=2.0)
        ended, went_on = await asyncio.gather(*reading)
    assert '"name":"after"' in went_on
    assert '"name":"after"' not in ended


async def test_a_permit_is_looked_at_again_after_a_while(site: Site) -> None:
    clock = ManualClock()
    token = await site.client(Role.ADMIN).send(calls.make_token("guest", Role.VIEWER))
    permit = Permit(
        site.api.context.authenticator, Credentials(authorization=f"Bearer {token.secret}"), clock
    )
    await site.client(Role.ADMIN).send(calls.revoke_token(token.id))
    clock.time += LOOK_AGAIN - 0.001
    assert await permit.holds(), "it was good a moment ago"
    clock.time += 0.001
    assert not await permit.holds()


def alone(site: Site, *, look_every: float, keep_alive: float) -> tuple[Context, Permit]:
    """The API of a replica that isn't told what the others write."""
    settings = replace(site.api.context.settings, look_every=look_every, keep_alive=keep_alive)
    ports = replace(site.ports, wakeups=LocalWakeups())
    ctx = replace(site.api.context, settings=settings, ports=ports)
    shown = Credentials(authorization=f"Bearer {site.secrets[Role.VIEWER]}")
    return ctx, Permit(ctx.authenticator, shown, ports.clock)


async def test_what_another_replica_wrote_reaches_the_feed_before_a_sign_of_life(site: Site) -> None:
    place = (await site.store.last_events(limit=1)).next
    stream = streams.feed(*alone(site, look_every=0.01, keep_alive=600.0), after=place, entity_id=None)
    await anext(stream)
    reading = asyncio.ensure_future(anext(stream))
    await site.store.note("thing", "elsewhere", reason=None, detail="", now=1.0)
    async with asyncio.timeout(30):
        assert b'"name":"elsewhere"' in await reading


async def test_an_event_that_becomes_readable_after_its_wake_up_is_not_left_for_the_next_one(
    site: Site,
) -> None:
    """As on PostgreSQL, which hides an event while an older transaction is open."""
    place = (await site.store.last_events(limit=1)).next
    ctx, permit = alone(site, look_every=inf, keep_alive=600.0)
    ctx = replace(ctx, settings=replace(ctx.settings, readable_within=30.0))
    stream = streams.feed(ctx, permit, after=place, entity_id=None)
    await anext(stream)
    reading = asyncio.ensure_future(anext(stream))
    await site.store.note("thing", "first", reason=None, detail="", now=1.0)
    async with asyncio.timeout(30):
        assert b'"name":"first"' in await reading, "what came before it was opened"
        reading = asyncio.ensure_future(anext(stream))
        await site.store.note("thing", "second", reason=None, detail="", now=2.0)
        assert b'"name":"second"' in await reading, "what came with the first"


async def test_what_an_operation_showed_so_far_comes_in_one_piece(site: Site) -> None:
    """Each piece is a send, which wakes the reader."""
    operation = await site.provisioned(site.client())
    stream = streams.progress(
        *alone(site, look_every=10.0, keep_alive=600.0), OperationId(operation.operation_id), seen=0
    )
    (piece,) = [piece async for piece in stream]
    told = [message["data"]["status"] for message in _messages(piece.decode())]
    assert (told[0], told[-1]) == ("queued", "succeeded")


async def test_what_another_replica_did_reaches_an_operations_stream(site: Site) -> None:
    site.lazy = True
    client = site.client()
    operation = await client.send(calls.provision(ProvisionRequest(template="ci", count=1, run="run-1")))
    ctx, permit = alone(site, look_every=0.01, keep_alive=600.0)

    async def read() -> list[bytes]:
        stream = streams.progress(ctx, permit, OperationId(operation.operation_id), seen=0)
        return [message async for message in stream]

    reading = asyncio.create_task(read())
    await client.send(calls.cancel(operation.operation_id))
    async with asyncio.timeout(30):
        assert b'"status":"cancelled"' in (await reading)[-1]


async def test_a_silent_stream_gives_signs_of_life_however_often_it_looks(site: Site) -> None:
    place = (await site.store.last_events(limit=1)).next
    stream = streams.feed(*alone(site, look_every=0.01, keep_alive=0.05), after=place, entity_id="nothing")
    async with asyncio.timeout(30):
        assert [await anext(stream) for _ in range(3)][1:] == [b": still here\n\n"] * 2


async def test_streams_at_the_same_place_share_what_they_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred that began at the oldest event kept the server busy for seconds."""
    for number in range(PAGE + 50):
        await site.store.note("thing", f"name-{number}", reason=None, detail="", now=1.0)
    known = await site.store.events(after=None, limit=10_000)
    encoded: list[str] = []
    of = wire.Event.of

    def counting(event: Event) -> wire.Event:
        encoded.append(event.id)
        return of(event)

    monkeypatch.setattr(wire.Event, "of", counting)
    readers = 20

    async def read() -> list[str]:
        found: list[str] = []
        async with site.http().stream("GET", "/api/v1/events", headers=SSE) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    found.append(json.loads(line.removeprefix("data:"))["id"])
                if found[-1:] == [known.items[-1].id]:
                    break
        return found

    async with asyncio.timeout(60):
        everything = await asyncio.gather(*(read() for _ in range(readers)))
    assert everything == [[event.id for event in known.items]] * readers
    assert len(encoded) < 5 * len(known.items)
    encoded.clear()
    async with asyncio.timeout(60):
        await read()
    assert len(encoded) < PAGE, "full pages are kept for those who come later"


class HeldStore:
    """Answers when it is let go, with what it saw when it was asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def events(self, **asked: Any) -> Page[Event]:
        page = await self._store.events(**asked)
        self.asked.set()
        await self.free.wait()
        return page


async def test_a_look_that_began_before_is_not_taken_for_a_later_one(site: Site) -> None:
    held = HeldStore(site.store)
    pages = FeedPages(cast("Store", held))
    place = (await site.store.last_events(limit=1)).next
    early = asyncio.create_task(pages.get(place, None))
    await held.asked.wait()
    await site.store.note("thing", "late", reason=None, detail="", now=1.0)
    later = [asyncio.create_task(pages.get(place, None)) for _ in range(2)]
    held.free.set()
    first, second = await asyncio.gather(*later)
    assert b'"name":"late"' in b"".join(first.pieces)
    assert first is second
    assert b"late" not in b"".join((await early).pieces)


async def test_a_stream_that_is_not_read_is_dropped_and_goes_on_where_it_was(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 2.0)  # a busy machine reads late
    dropped = asyncio.Event()
    abort = JoiningTransport.abort

    def noted(self: JoiningTransport) -> None:
        abort(self)
        dropped.set()

    monkeypatch.setattr(JoiningTransport, "abort", noted)
    for number in range(2 * PAGE):
        detail = "x" * 50_000 if number > PAGE else ""  # more than the system keeps for a connection
        await site.store.note("thing", f"name-{number}", reason=None, detail=detail, now=1.0)
    known = [event.id for event in (await site.store.events(after=None, limit=10_000)).items]
    parts = urlsplit(site.url)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    line.connect((parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=4096)
    secret = site.secrets[Role.VIEWER]
    head = f"Host: here\r\nAccept: text/event-stream\r\nAuthorization: Bearer {secret}\r\n\r\n"
    writer.write(f"GET /api/v1/events HTTP/1.1\r\n{head}".encode())
    async with asyncio.timeout(60):
        read = b""
        while not (places := re.findall(rb"\nid: ([^\n]+)\n", read)):
            read += await reader.read(1 << 16)
        await dropped.wait()
    writer.close()
    before = read[: read.index(b"\nid: ")].count(b"\ndata: ")
    assert before == PAGE - 1, "a place comes with the last event before it, never earlier"
    found: list[str] = []
    resumed = {**SSE, "Last-Event-ID": places[-1].decode()}
    async with asyncio.timeout(60), site.http().stream("GET", "/api/v1/events", headers=resumed) as answer:
        async for each in answer.aiter_lines():
            if each.startswith("data:"):
                found.append(json.loads(each.removeprefix("data:"))["id"])
            if found[-1:] == known[-1:]:
                break
    assert found == known[PAGE:], "nothing is missing after the page that was read"
