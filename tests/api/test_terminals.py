"""Both ends of a terminal as strangers speak them: plain WebSockets, honest and hostile."""

import asyncio
import json
import logging
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from muster.api import access, connections, terminal_sockets
from muster.api.access import mint
from muster.client import calls
from muster.domain.access import Role
from muster.domain.command import Execution
from muster.domain.errors import Conflict, Forbidden, TooManyShells
from muster.domain.settings import Settings
from muster.domain.terminal import Allowed, ShellRules, Window
from muster.wire.commands import Command
from tests.api.site import Site, opened

SHELL = Execution(argv=("sh",), terminal=Window(rows=24, cols=80))
SOON = 20.0


@asynccontextmanager
async def ruled(tmp_path: Path, **rules: Any) -> AsyncIterator[Site]:
    async with opened(tmp_path, settings=Settings(shells=ShellRules(**rules))) as site:
        await site.template()
        site.hold.set()
        yield site


async def shell(site: Site, role: Role = Role.ADMIN) -> Command:
    client = site.client(role)
    if not site.agents:
        await site.provisioned(site.client())
    (made,) = await client.send(calls.execute(SHELL, run="run-1"))
    return made


def address(site: Site, command_id: str, *, agent: bool = False) -> str:
    return (
        f"{site.url.replace('http', 'ws')}/api/v1/{'agent/' if agent else ''}commands/{command_id}/terminal"
    )


def person(site: Site, command_id: str, role: Role = Role.ADMIN, **more: Any) -> connect:
    shown = {"Authorization": f"Bearer {site.secrets[role]}"}
    return connect(address(site, command_id), additional_headers=shown, proxy=None, compression=None, **more)


def agent(site: Site, command_id: str, token: str = "") -> connect:
    shown = {"Authorization": f"Bearer {token or site.agents[0].token}"}
    where = address(site, command_id, agent=True)
    return connect(where, additional_headers=shown, proxy=None, compression=None)


async def said(link: ClientConnection, word: str) -> Any:
    """Wait for a word; others are passed over."""
    async with asyncio.timeout(SOON):
        while True:
            message = await link.recv()
            if isinstance(message, str) and word in json.loads(message):
                return json.loads(message)[word]


async def data(link: ClientConnection) -> bytes:
    async with asyncio.timeout(SOON):
        while not isinstance(message := await link.recv(), bytes):
            pass
    return message


async def refused(link: connect) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught:
        await link
    return caught.value.response.status_code, json.loads(caught.value.response.body)["code"]


async def test_what_one_end_sends_the_other_gets_unchanged_and_in_order(site: Site) -> None:
    site.hold.set()
    made = await shell(site)
    assert (made.terminal, made.actor.startswith("admin (tok-")) == (True, True)
    async with person(site, made.id) as near, agent(site, made.id) as far:
        assert await said(near, "paired") and await said(far, "paired")
        for number in range(50):
            await near.send(bytes([number]) * 100)
            await far.send(bytes([number]) * 30_000)
        await far.send(json.dumps({"exit": 3}))
        for number in range(50):
            assert await data(far) == bytes([number]) * 100
            assert await data(near) == bytes([number]) * 30_000
        assert await said(near, "exit") == 3
    (event, *_) = [
        each
        for each in (await site.client().send(calls.last_events(1000))).items
        if each.entity_id == made.id and each.name == "pending"
    ]
    assert (event.actor, event.changes["terminal"]) == (made.actor, True)


async def test_an_end_that_is_gone_is_told_and_its_new_connection_is_paired_again(site: Site) -> None:
    site.hold.set()
    made = await shell(site)
    async with person(site, made.id) as near:
        async with agent(site, made.id) as far:
            await said(far, "paired")
        await said(near, "unpaired")
        async with agent(site, made.id) as far:
            await said(near, "paired")
            async with agent(site, made.id) as newer:
                await said(newer, "paired")
                with pytest.raises(ConnectionClosed) as closed:
                    await said(far, "never")
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 4001
                await newer.send(b"still there")
                assert await data(near) == b"still there"
                await near.close()
                with pytest.raises(ConnectionClosed) as closed:
                    await said(newer, "never")
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 4002
    async with person(site, made.id) as near, agent(site, made.id) as far:
        assert await said(near, "paired")


async def test_only_its_person_its_node_and_its_own_page_may_connect(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.hold.set()
    made = await shell(site)
    plain = (await site.client().send(calls.execute(Execution(argv=("true",)), run="run-1")))[0]
    assert await refused(connect(address(site, made.id), proxy=None)) == (401, "unauthenticated")
    assert await refused(person(site, made.id, Role.VIEWER)) == (403, "forbidden")
    assert await refused(person(site, made.id, Role.ENROL)) == (403, "forbidden")
    assert await refused(person(site, made.id, Role.OPERATOR)) == (403, "forbidden"), "another's shell"
    assert await refused(person(site, made.id, origin="https://elsewhere.example")) == (403, "forbidden")
    assert await refused(person(site, "cmd-unknown.0")) == (404, "not_found")
    assert await refused(person(site, plain.id)) == (404, "not_found")
    assert await refused(agent(site, made.id, "wrong")) == (401, "unauthenticated")
    assert await refused(agent(site, made.id, site.secrets[Role.ADMIN])) == (401, "unauthenticated")
    assert await refused(agent(site, made.id)) == (409, "conflict"), "its person is not connected here"
    where = site.url.replace("http", "ws")
    assert await refused(connect(f"{where}/api/v1/events", proxy=None)) == (404, "not_found")
    told = await site.http().get(f"/api/v1/commands/{made.id}/terminal")
    assert (told.status_code, told.json()["field"]) == (422, "Upgrade")
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == [], "a refusal is no fault"

    words = [Subprotocol("muster.terminal"), Subprotocol(f"bearer.{site.secrets[Role.ADMIN]}")]
    page = connect(address(site, made.id), origin=Origin(site.url), subprotocols=words, proxy=None)
    async with page as near:
        assert near.subprotocol == "muster.terminal"
        client = site.client()
        await client.send(calls.cancel_command(made.id))
        assert (await said(near, "ended"))["why"] == "exited"
    assert await refused(person(site, made.id)) == (410, "gone")
    assert [each for each in caplog.messages if "handshake" in each] == [], "a refusal is no error of ours"


async def test_another_node_cannot_serve_the_terminal(site: Site) -> None:
    site.hold.set()
    await site.provisioned(site.client(), count=2)
    first, second = await site.client().send(calls.execute(SHELL, run="run-1"))
    tokens = {each.node_id: each.token for each in site.agents}
    async with person(site, first.id):
        assert await refused(agent(site, first.id, tokens[second.node_id])) == (404, "not_found")
        async with agent(site, first.id, tokens[first.node_id]):
            pass


async def test_of_a_hundred_shells_at_once_a_node_gets_as_many_as_it_may(tmp_path: Path) -> None:
    async with ruled(tmp_path, per_node=3) as site:
        await site.provisioned(site.client())
        asked = [site.client().send(calls.execute(SHELL, run="run-1")) for _ in range(100)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refusals = [each for each in answers if isinstance(each, BaseException)]
        assert all(isinstance(each, TooManyShells | Conflict) for each in refusals), refusals
        made = [each for each in answers if not isinstance(each, BaseException)]
        assert 1 <= len(made) <= 3
        for _ in range(3 - len(made)):
            await shell(site)
        with pytest.raises(TooManyShells, match=r"has 3 open.*\[shells\]"):
            await shell(site)
        await site.client().send(calls.cancel_command(made[0][0].id))

        async def ended() -> bool:
            return (await site.client().send(calls.command(made[0][0].id))).ended

        await site.until(ended)
        await shell(site)


async def test_a_server_relays_as_many_as_it_may_and_frees_their_connections(tmp_path: Path) -> None:
    async with ruled(tmp_path, per_server=2) as site:
        first, second, third = [await shell(site) for _ in range(3)]
        async with person(site, first.id) as near, person(site, second.id):
            await said(near, "alive")
            assert await refused(person(site, third.id)) == (429, "too_many_shells")
            with pytest.raises(TooManyShells, match="this server has 2 open"):
                await shell(site)
            async with person(site, first.id):
                pass  # takes its own place over

        async def free() -> bool:
            return len(site.api.context.terminals) == 0

        await site.until(free)
        async with person(site, third.id) as near:
            await said(near, "alive")


async def test_who_may_is_a_setting(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with ruled(tmp_path_factory.mktemp("a"), allowed=Allowed.ADMIN) as site:
        made = await shell(site)
        with pytest.raises(Forbidden, match="keeps shells to admins"):
            await shell(site, Role.OPERATOR)
        async with person(site, made.id) as near:
            await said(near, "alive")
    async with ruled(tmp_path_factory.mktemp("b"), allowed=Allowed.OFF) as site:
        with pytest.raises(Forbidden, match="switched off"):
            await shell(site)


async def test_an_idle_shell_and_one_whose_token_ended_are_ended_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_sockets, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(access, "LOOK_AGAIN", 0.0)
    async with ruled(tmp_path, idle_timeout=1.0) as site:
        made = await shell(site)
        async with person(site, made.id) as near, agent(site, made.id) as far:
            ended = await said(near, "ended")
            assert ended["why"] == "idle" and "nothing was typed for 1 s" in ended["detail"]
            assert await said(far, "leave")
    (tmp_path / "patient").mkdir()
    async with ruled(tmp_path / "patient") as site:
        minted, secret = await mint(
            site.store.access, ids=site.ports.ids, name="soon gone", role=Role.OPERATOR, now=0.0
        )
        site.secrets[Role.OPERATOR] = secret
        made = await shell(site, Role.OPERATOR)
        async with person(site, made.id, Role.OPERATOR) as near, agent(site, made.id) as far:
            await said(near, "paired")
            await site.client().send(calls.revoke_token(minted.id))
            assert (await said(near, "ended"))["why"] == "token"
            assert await said(far, "leave")


async def test_an_agent_that_sends_without_end_is_stopped_by_a_person_who_does_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 2.0)
    site.hold.set()
    made = await shell(site)
    parts, line = urlsplit(site.url), socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((parts.hostname, parts.port))
    head = (
        f"GET /api/v1/commands/{made.id}/terminal HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\n"
        f"Authorization: Bearer {site.secrets[Role.ADMIN]}\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bXVzdGVyIHRlcm1pbmFsIQ==\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(sock=line, limit=4096)
    writer.write(head.encode())
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 101")
    before, sent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    async with agent(site, made.id) as far:
        with suppress(ConnectionClosed):
            while sent < 1 << 30:
                await far.send(bytes(60_000))
                sent += 60_000
    assert sent < 64 << 20, "the reader kept it"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10, "in kilobytes"
    writer.close()


async def test_a_message_that_is_too_large_ends_its_connection(site: Site) -> None:
    site.hold.set()
    made = await shell(site)
    async with person(site, made.id) as near, agent(site, made.id) as far:
        await said(near, "paired")
        await far.send(bytes(100_000))
        with pytest.raises(ConnectionClosed) as closed:
            await said(far, "never")
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        await said(near, "unpaired")
