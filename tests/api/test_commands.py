import asyncio
import hashlib
import io
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from muster.api.files import SPARED
from muster.cli.command_output import SilenceMonitor
from muster.client import ServerProblem, SyncClient, calls
from muster.domain.access import Role
from muster.domain.command import CommandState, Execution, Variable
from muster.domain.deadlines import Limits
from muster.domain.errors import Ambiguous, IdempotencyMismatch, NotFound
from muster.domain.health import judge
from muster.domain.ids import NodeId
from muster.domain.operation import Status
from muster.domain.requests import ProvisionRequest
from tests.api.site import Site, opened
from tests.harness.async_client import AsyncClient

ECHO = Execution(argv=("echo", "hello"), env=(Variable(name="SECRET", value="not-for-others"),))


async def _output(client: AsyncClient, command_id: str) -> bytes:
    return b"".join([piece async for piece in client.follow(command_id)])


async def test_a_command_runs_on_every_node_and_its_output_comes_back(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client, count=2)
    commands = await client.send(calls.execute(ECHO, run="run-1"))
    assert [command.ordinal for command in commands] == [0, 1]
    for command in commands:
        assert await _output(client, command.id) == f"hello from {command.ordinal}\n".encode()
        ended = await client.send(calls.command(command.id))
        assert (ended.state, ended.exit_status) == (CommandState.EXITED, 0)
    listed = (await client.send(calls.commands(operation_id=operation.operation_id))).items
    assert [command.id for command in listed] == [command.id for command in commands]
    assert (await client.send(calls.commands(run="run-1", limit=1))).next is not None


async def test_the_environment_reaches_only_the_node(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(ECHO, run="run-1"))
    await _output(client, command.id)
    assert site.agents[0].environments[0]["SECRET"] == "not-for-others"
    run = await client.send(calls.run(ProvisionRequest(template="ci", count=1, run="run-2"), ECHO))
    await site.ended(client, run)
    http = site.http(site.secrets[Role.VIEWER])
    for path in ("/commands", "/operations", "/events?limit=1000", f"/operations/{run.operation_id}"):
        answer = await http.get("/api/v1" + path)
        assert answer.status_code == 200
        assert "not-for-others" not in answer.text


async def test_output_is_read_from_any_offset(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(ECHO, run="run-1"))
    whole = await _output(client, command.id)
    assert await client.send(calls.output(command.id, offset=6)) == whole[6:]
    assert await client.send(calls.output(command.id, offset=10_000)) == b""
    assert b"".join([piece async for piece in client.follow(command.id, offset=6)]) == whole[6:]


async def test_output_is_followed_while_the_command_runs_until_it_is_cancelled(site: Site) -> None:
    site.hold.set()
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(ECHO, run="run-1"))
    following = client.follow(command.id)
    assert await anext(following) == b"hello from 0\n"
    assert (await client.send(calls.command(command.id))).state is CommandState.RUNNING
    asked = await client.send(calls.cancel_command(command.id))
    assert asked.cancel_requested_at is not None
    assert [piece async for piece in following] == []
    ended = await client.send(calls.command(command.id))
    assert (ended.signal, ended.exit_status) == (15, 143)


async def test_a_run_provisions_executes_and_gives_back_in_one_operation(site: Site) -> None:
    client = site.client()
    asked = ProvisionRequest(template="ci", count=2, run="run-1")
    run = await site.ended(client, await client.send(calls.run(asked, ECHO)))
    assert (run.status, run.result) == (Status.SUCCEEDED, "exit 0")
    commands = (await client.send(calls.commands(run="run-1"))).items
    assert {await _output(client, command.id) for command in commands} == {
        b"hello from 0\n",
        b"hello from 1\n",
    }
    assert (await client.send(calls.pools())).items[0].idle == 2


async def test_a_run_tells_its_step_before_its_output_and_both_while_it_runs(site: Site) -> None:
    site.hold.set()
    client = site.client()
    asked = ProvisionRequest(template="ci", count=1, run="run-1")
    run = await client.send(calls.run(asked, ECHO))
    told = client.stream(calls.watch(run.operation_id))
    while (await anext(told)).message != "0 of 1 command ended":
        pass
    following = client.follow(f"{run.operation_id}.0")
    assert await anext(following) == b"hello from 0\n"
    command = await client.send(calls.command(f"{run.operation_id}.0"))
    assert command.state is CommandState.RUNNING
    events = (await site.http().get(f"/api/v1/events?entity_id={run.operation_id}")).json()["items"]
    began = [datetime.fromisoformat(each["at"]) for each in events if each["changes"].get("step") == 5]
    assert command.started_at is not None and min(began) <= command.started_at
    await client.send(calls.cancel(run.operation_id))
    assert [piece async for piece in following] == []


async def test_a_node_that_falls_silent_under_a_command_is_told_with_since_when_and_until_when(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.hold.set()
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(ECHO, run="run-1"))
    assert await anext(client.follow(command.id)) == b"hello from 0\n"
    shown = (await site.http().get(f"/api/v1/commands/{command.id}")).json()
    assert (shown["silent_since"], shown["given_up_at"]) == (None, None)

    node_id, limits = NodeId(command.node_id), Limits()
    vitals = (await site.store.vitals([node_id]))[node_id]
    assert vitals.seen_at is not None
    silent = judge(vitals, now=time.time() + limits.stale_after + 1, observing_since=0.0, limits=limits)
    assert silent is not None
    await site.store.write_health(silent)

    shown = (await site.http().get(f"/api/v1/commands/{command.id}")).json()
    assert datetime.fromisoformat(shown["silent_since"]).timestamp() == pytest.approx(vitals.seen_at)
    until = datetime.fromisoformat(shown["given_up_at"]).timestamp()
    assert until == pytest.approx(silent.at + limits.lost_after)
    listed = (await site.http().get("/api/v1/commands?run=run-1")).json()["items"]
    assert [each["silent_since"] for each in listed] == [shown["silent_since"]]

    watched = SilenceMonitor([command])
    with SyncClient(site.url, site.secrets[Role.VIEWER]) as follower:
        for _ in range(2):  # told once
            await asyncio.to_thread(watched.look, follower)
    said = capsys.readouterr().err
    assert said.startswith(f"[0] {node_id} has not answered since {shown['silent_since']} (")
    assert f"gives it up at {shown['given_up_at']} (in " in said and said.count("\n") == 1
    await client.send(calls.cancel_command(command.id))


async def test_commands_asked_for_twice_with_one_key_are_the_same(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    first = await client.send(calls.execute(ECHO, run="run-1", key="../../a key / of mine"))
    again = await client.send(calls.execute(ECHO, run="run-1", key="../../a key / of mine"))
    assert [command.id for command in again] == [command.id for command in first]
    assert "/" not in first[0].id
    with pytest.raises(IdempotencyMismatch):
        await client.send(calls.execute(Execution(argv=("ls",)), run="run-1", key="../../a key / of mine"))


async def test_a_run_with_two_live_provisions_must_be_named(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    await site.provisioned(client)
    with pytest.raises(Ambiguous):
        await client.send(calls.execute(ECHO, run="run-1"))


async def test_an_archive_is_named_by_its_content_and_given_to_the_node_that_needs_it(site: Site) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"some "
        yield b"archive"

    client = site.client()
    blob = await client.upload(pieces())
    assert blob.id == f"sha256-{hashlib.sha256(b'some archive').hexdigest()}"
    assert blob.size == 12
    site.hold.set()
    await site.provisioned(client)
    node = site.http(site.agents[0].token)
    assert (await node.get(f"/api/v1/agent/blobs/{blob.id}")).status_code == 404
    await client.send(calls.execute(Execution(argv=("true",), archive=blob.id), run="run-1"))
    assert (await node.get(f"/api/v1/agent/blobs/{blob.id}")).content == b"some archive"


async def test_an_archive_that_was_never_sent_is_refused_before_anything_starts(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    asked = Execution(argv=("true",), archive="sha256-0")
    with pytest.raises(NotFound, match="archive"):
        await client.send(calls.execute(asked, run="run-1"))
    with pytest.raises(NotFound, match="archive"):
        await client.send(calls.run(ProvisionRequest(template="ci", count=1, run="run-2"), asked))
    assert (await client.send(calls.commands())).items == ()


async def test_results_come_back_as_they_were_sent(site: Site, tmp_path: Path) -> None:
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(replace(ECHO, collect=("out",)), run="run-1"))
    await _output(client, command.id)
    target = tmp_path / "result.tgz"

    def fetch() -> int:
        with SyncClient(site.url, site.secrets[Role.VIEWER]) as blocking:
            return blocking.download(command.id, target)

    assert await asyncio.to_thread(fetch) == len(b"an archive")
    assert target.read_bytes() == b"an archive"


async def test_a_command_without_results_has_none_to_fetch(site: Site) -> None:
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(ECHO, run="run-1"))
    answer = await site.http().get(f"/api/v1/commands/{command.id}/artifact")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_an_archive_has_a_size_limit_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with opened(tmp_path, blob_most=1000) as site:

        def send() -> None:
            with SyncClient(site.url, site.secrets[Role.OPERATOR]) as blocking:
                blocking.upload(io.BytesIO(b"x" * 1001))

        with pytest.raises(ServerProblem, match="1000 bytes") as refused:
            await asyncio.to_thread(send)
        assert refused.value.code == "too_large"
        assert list((tmp_path / "blobs").iterdir()) == []


async def test_archives_have_a_limit_together(tmp_path: Path) -> None:
    async with opened(tmp_path, blobs_total=1000) as site:
        http = site.http()
        assert (await http.put("/api/v1/blobs", content=b"a" * 900)).status_code == 201
        full = await http.put("/api/v1/blobs", content=b"b" * 900)
        assert (full.status_code, full.json()["code"]) == (507, "storage_full")


async def test_archives_that_arrive_together_have_a_limit_together(tmp_path: Path) -> None:
    """Each finds room when it begins: 20 of them must not all have it."""
    each, fit, begun = 100, 9, asyncio.Barrier(20)

    async def slowly(first: int) -> AsyncIterator[bytes]:
        yield bytes([first])
        await begun.wait()
        yield bytes(each - 1)

    async with opened(tmp_path, blobs_total=each * fit + each // 2) as site:
        http = site.http()
        sent = await asyncio.gather(*(http.put("/api/v1/blobs", content=slowly(n)) for n in range(20)))
        taken = [answer.status_code for answer in sent].count(201)
        kept = [path.stat().st_size for path in (tmp_path / "blobs").iterdir()]
        assert {answer.status_code for answer in sent} == {201, 507}
        assert 0 < taken <= fit and sum(kept) == taken * each
        rest = await http.put("/api/v1/blobs", content=bytes(each * (fit - taken)))
        assert rest.status_code == 201, "what was refused takes no room"


async def test_a_command_that_was_released_keeps_its_results(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    (command,) = await client.send(calls.execute(replace(ECHO, collect=("out",)), run="run-1"))
    said = await _output(client, command.id)
    root, node = f"/api/v1/agent/commands/{command.id}", site.http(site.agents[0].token)

    async def refused() -> None:
        forged = await node.put(f"{root}/artifact", content=b"forged")
        more = await node.post(f"{root}/output", params={"offset": len(said)}, content=b"forged")
        assert [forged.status_code, more.status_code] == [403, 403]
        kept = await site.http().get(f"/api/v1/commands/{command.id}/artifact")
        assert kept.content == b"an archive"
        assert await client.send(calls.output(command.id, offset=0)) == said

    await refused()
    await site.ended(client, await client.send(calls.release(operation_id=operation.operation_id)))
    await refused()


async def test_the_archive_that_was_asked_for_longest_ago_is_dropped_when_all_are_full(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, blob_most=500, blobs_total=1000) as site:
        http = site.http()
        kept = [(await http.put("/api/v1/blobs", content=each * 400)).json()["id"] for each in (b"a", b"b")]
        for name, age in zip(kept, (SPARED + 60.0, SPARED - 60.0), strict=True):
            at = site.ports.clock.now() - age
            os.utime(tmp_path / "blobs" / name, (at, at))
        assert (await http.put("/api/v1/blobs", content=b"c" * 500)).status_code == 201
        left = [(tmp_path / "blobs" / name).exists() for name in kept]
        assert left == [False, True]
        assert (await http.put("/api/v1/blobs", content=b"d" * 400)).status_code == 507


async def test_a_look_for_results_that_were_not_taken_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path, blob_most=9) as site:
        site.hold.set()
        await site.template()
        client = site.client()
        await site.provisioned(client)
        (command,) = await client.send(calls.execute(replace(ECHO, collect=("out",)), run="run-1"))
        node = site.http(site.agents[0].token)
        sent = await node.put(f"/api/v1/agent/commands/{command.id}/artifact", content=b"x" * 10)
        assert sent.status_code == 413
        answer = await site.http().get(f"/api/v1/commands/{command.id}/artifact")
        assert (answer.status_code, answer.json()["code"]) == (410, "not_kept")
        assert "more than 9 bytes" in answer.json()["detail"]


async def test_an_old_archive_is_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path, blob_hours=-1) as site:
        http = site.http()
        first = (await http.put("/api/v1/blobs", content=b"first")).json()["id"]
        await http.put("/api/v1/blobs", content=b"second")
        assert not (tmp_path / "blobs" / first).exists()
