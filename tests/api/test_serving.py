"""The composition root: a real server with its own data directory, started and stopped."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from muster.api.server import CannotListen, bind, url_of
from muster.client import SyncClient, calls
from muster.config import Config, find_server, load
from muster.config.data_directory import DirectoryInUse
from muster.domain.errors import StoreUnavailable
from muster.serve import Serving, run, serve
from tests.harness.async_client import AsyncClient


def _config(data: Path, **flags: Any) -> Config:
    return load(flags={"port": 0, "data_dir": str(data), **flags})


@asynccontextmanager
async def _served(config: Config, *, new_admin: bool = False) -> AsyncIterator[Serving]:
    ready: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(config, ready=ready.set_result, new_admin=new_admin))
    both: list[asyncio.Future[Any]] = [serving, ready]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    try:
        yield ready.result()
    finally:
        ready.result().stop()
        await serving


async def test_a_first_start_leaves_all_that_the_cli_on_this_machine_needs(tmp_path: Path) -> None:
    async with _served(_config(tmp_path / "data")) as server:
        found = find_server({}, tmp_path / "data")
        assert found.url == server.url
        async with AsyncClient(found.url, found.token) as client:
            assert [template.name for template in await client.send(calls.templates())] == ["default"]
            assert [token.role for token in await client.send(calls.tokens())] == ["admin"]
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
            assert (await http.get("/readyz")).status_code == 200
        for name in ("admin.token", "server.json"):
            assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o600


async def test_a_restart_keeps_the_token_and_the_port(tmp_path: Path) -> None:
    async with _served(_config(tmp_path)) as server:
        first, token = server.url, server.data.admin_token()
    async with _served(_config(tmp_path)) as server:
        assert (server.url, server.data.admin_token()) == (first, token)
        async with AsyncClient(server.url, token) as client:
            assert len(await client.send(calls.tokens())) == 1


async def test_a_template_has_a_new_revision_when_the_server_brings_its_nodes_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = "[templates.plain]\n[templates.runners]\nruntime = 'github'\n"
    (tmp_path / "token").write_text("a-token")
    github = f"[github]\ntoken_file = '{tmp_path}/token'\nrunner_sha256 = '{'0' * 64}'\n"

    async def revisions(version: str) -> list[int]:
        path = tmp_path / "muster.toml"
        path.write_text(f"{github}runner_version = '{version}'\n{templates}")
        config = load(path, flags={"port": 0, "data_dir": str(tmp_path / "data")})
        async with (
            _served(config) as server,
            AsyncClient(server.url, server.data.admin_token()) as client,
        ):
            return [each.revision for each in await client.send(calls.templates())]

    assert await revisions("2.330.0") == [1, 1]
    assert await revisions("2.330.0") == [1, 1]
    assert await revisions("2.331.0") == [1, 2]
    monkeypatch.setattr("muster.agent.source", lambda: "another agent")
    assert await revisions("2.331.0") == [2, 3]


async def test_a_stream_goes_on_across_a_restart_and_each_event_comes_once(tmp_path: Path) -> None:
    seen: list[str] = []
    changed = asyncio.Event()

    async def follow(client: AsyncClient) -> None:
        async for event in client.stream(calls.follow_events()):
            seen.append(event.id)
            changed.set()

    async def until(count: int) -> None:
        async with asyncio.timeout(20):
            while len(seen) < count:
                changed.clear()
                await changed.wait()

    async with _served(_config(tmp_path)) as server:
        client = AsyncClient(server.url, server.data.admin_token())
        before = len((await client.send(calls.events())).items)
        following = asyncio.create_task(follow(client))
        await until(before)
    async with _served(_config(tmp_path)):
        await client.send(calls.limit(17))
        await until(before + 1)
        whole = (await client.send(calls.events(limit=1000))).items
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
    assert seen == [event.id for event in whole]


async def test_a_start_makes_no_second_admin_unless_it_is_told_to(tmp_path: Path) -> None:
    async with _served(_config(tmp_path)) as server:
        first = server.data.admin_token()
        (tmp_path / "admin.token").unlink()
    async with _served(_config(tmp_path)) as server:
        assert server.data.admin_token() is None
        async with AsyncClient(server.url, first) as client:
            assert len(await client.send(calls.tokens())) == 1
    async with _served(_config(tmp_path), new_admin=True) as server:
        second = server.data.admin_token()
        for each in (first, second):
            async with AsyncClient(server.url, each) as client:
                assert [token.role for token in await client.send(calls.tokens())] == ["admin", "admin"]
    assert second not in (None, first)


async def test_a_server_whose_admin_was_revoked_makes_another_at_the_next_start(tmp_path: Path) -> None:
    async with _served(_config(tmp_path)) as server:
        old = server.data.admin_token()
        async with AsyncClient(server.url, old) as client:
            (token,) = await client.send(calls.tokens())
            await client.send(calls.revoke_token(token.id))
    async with _served(_config(tmp_path)) as server:
        assert server.data.admin_token() != old
        async with AsyncClient(server.url, server.data.admin_token()) as client:
            assert len(await client.send(calls.tokens())) == 2


async def test_a_second_server_on_the_same_data_directory_is_refused(tmp_path: Path) -> None:
    async with _served(_config(tmp_path)) as server:
        with pytest.raises(DirectoryInUse, match=server.url):
            await serve(_config(tmp_path))


async def test_a_second_server_that_finds_its_port_taken_by_the_first_names_it(tmp_path: Path) -> None:
    async with _served(_config(tmp_path)) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(DirectoryInUse, match=server.url):
            await serve(_config(tmp_path, port=port))


@pytest.mark.parametrize("flags", [{}, {"host": "203.0.113.7"}, {"host": "no.such.host.invalid"}])
async def test_a_start_that_cannot_succeed_leaves_nothing_behind(
    tmp_path: Path, flags: dict[str, Any]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = _config(tmp_path / "data", **{"port": taken.getsockname()[1], **flags})
        with pytest.raises(CannotListen):
            await serve(config)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 — the other way is refused in async tests


async def test_a_port_is_taken_before_the_server_is_up(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as listener, pytest.raises(CannotListen, match="the port is in use"):
        bind("127.0.0.1", listener.getsockname()[1])


async def test_only_the_owner_may_read_the_store_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "muster.db").touch(mode=0o644)  # of an earlier version
    before = os.umask(0o000)
    try:
        async with _served(_config(tmp_path)):
            names = ("muster.db", "muster.db-wal", "muster.db-shm")
            modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names]
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600, 0o600]


async def test_templates_of_the_file_are_there_and_what_was_applied_stays(tmp_path: Path) -> None:
    path = tmp_path / "muster.toml"
    path.write_text("[installation]\nmax_nodes = 7\n[templates.ci]\nmax_nodes = 3\n")
    config = load(path, flags={"port": 0, "data_dir": str(tmp_path / "data")})
    async with _served(config) as server, AsyncClient(server.url, server.data.admin_token()) as client:
        assert (await client.send(calls.installation())).max_nodes == 7
        (template,) = await client.send(calls.templates())
        assert (template.name, template.max_nodes) == ("ci", 3)
    path.write_text("[templates.ci]\nmax_nodes = 4\n")
    config = load(path, flags={"port": 0, "data_dir": str(tmp_path / "data")})
    async with _served(config) as server, AsyncClient(server.url, server.data.admin_token()) as client:
        assert (await client.send(calls.template("ci"))).max_nodes == 3


async def test_a_database_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "muster.db").write_bytes(b"not a database at all, " * 100)
    with pytest.raises(StoreUnavailable):
        await serve(_config(tmp_path))


def test_a_port_in_use_is_one_sentence_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(_config(tmp_path, port=port)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        f"error: cannot listen on 127.0.0.1:{port}: the port is in use; "
        "stop what uses it, or choose another with --port"
    )


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(CannotListen, match="not an address of this machine"):
        bind(host, 0)


def test_a_socket_on_every_address_is_reached_on_loopback() -> None:
    with bind("0.0.0.0", 0) as listener:  # noqa: S104 — that is what is tested
        assert url_of(listener).startswith("http://127.0.0.1:")


SERVER = "import sys; from muster.config import load; from muster.serve import run; sys.exit(run(load(\
flags={'port': 0, 'data_dir': sys.argv[1], 'log_format': 'json'}, path=None)))"


def _started(data: Path) -> tuple[subprocess.Popen[str], list[dict[str, Any]]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(data)], stderr=subprocess.PIPE, text=True)
    lines: list[dict[str, Any]] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1]["message"] == "listening":
            break
    return process, lines


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_0_also_while_streams_are_open(tmp_path: Path, number: int) -> None:
    process, lines = _started(tmp_path)
    try:
        assert {"at", "level", "message"} <= set(lines[-1])
        found = find_server({}, tmp_path)
        headers = {"Authorization": f"Bearer {found.token}", "Accept": "text/event-stream"}
        with httpx.stream("GET", f"{found.url}/api/v1/events", headers=headers, trust_env=False) as stream:
            pieces = stream.iter_text()
            assert "hello" in next(pieces)
            process.send_signal(number)
            for _ in pieces:
                pass
        assert process.wait(15) == 0
        assert not (tmp_path / "server.json").exists()
        assert process.stderr is not None
        rest = process.stderr.read()
        assert json.loads(rest.splitlines()[-1])["message"] == "stopped"
        assert found.token is not None
        assert found.token not in rest + json.dumps(lines)
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_a_hangup_applies_the_files_templates_and_a_file_that_is_broken_or_refused_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "muster.toml"
    path.write_text("[templates.ci]\nmax_nodes = 3\n")
    program = SERVER.replace("path=None", f"path=__import__('pathlib').Path({str(path)!r})")
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        _until(process.stderr, "listening")
        path.write_text("[templates.ci]\nmax_nodes = 4\n[installation]\nmax_nodes = 9\n")
        process.send_signal(signal.SIGHUP)
        applied = _until(process.stderr, "applied")
        assert (applied["template"], applied["revision"]) == ("ci", 1), "nodes are made as before"
        path.write_text("[templates.ci]\nmax_node = 5\n")
        process.send_signal(signal.SIGHUP)
        assert "did you mean max_nodes?" in _until(process.stderr, "cannot reload")["message"]
        path.write_text(
            "[templates.ci]\nmax_nodes = 5\n[installation]\nmax_nodes = 8\n"
            "[templates.far]\nprovider = 'nowhere'\n"
        )
        process.send_signal(signal.SIGHUP)
        assert "everything stays as it was" in _until(process.stderr, "cannot reload")["message"]
        found = find_server({}, tmp_path / "data")
        with SyncClient(found.url, found.token) as client:
            assert client.send(calls.template("ci")).max_nodes == 4
            assert client.send(calls.installation()).max_nodes == 9
            client.send(calls.retire("ci"))
            path.write_text("[templates.ci]\nmax_nodes = 4\n[templates.another]\n")
            process.send_signal(signal.SIGHUP)
            assert _until(process.stderr, "applied")["template"] == "another"
            assert client.send(calls.template("ci")).retired, "the file says nothing new of it"
            path.write_text("[templates.ci]\nmax_nodes = 5\n")
            process.send_signal(signal.SIGHUP)
            _until(process.stderr, "applied")
            assert not client.send(calls.template("ci")).retired
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def _until(lines: IO[str], start: str) -> dict[str, Any]:
    for line in lines:
        said: dict[str, Any] = json.loads(line)
        if said["message"].startswith(start):
            return said
    raise AssertionError(f"it never said {start!r}")
