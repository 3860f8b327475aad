"""Wrong settings, engines that are away or lie, races and leftovers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import Forbidden, NotYet, Refused, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.docker import journal, launcher, names, starter
from muster.integrations.docker.api import Engine as Api
from muster.integrations.docker.identity import DockerVerifier
from muster.integrations.docker.inspection import findings
from muster.integrations.docker.journal import ENDED, MADE, Fate
from muster.integrations.docker.provider import DockerProvider
from muster.ports.provider import MachineState
from muster.system import SystemClock, SystemIds
from muster.testing.provider_contract import asking, ids, listed, until_gone
from tests.integrations.docker.hostile import answering
from tests.integrations.docker.lab import CONFIG, Lab, no_phases, template

GARBAGE = [
    b"",
    b"not JSON",
    b"[]",
    b"{}",
    b"null",
    b"7",
    b'[{"Id": 7}]',
    b'{"Volumes": 7}',
    b"[[[[",
    b'"text"',
]
FORK = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError:
    print(made, flush=True)
os._exit(0)
"""
MACHINE = names.MachineName(engine="big", launch="0" * 24, ordinal=0)


@asynccontextmanager
async def provider(host: str, **config: Any) -> AsyncIterator[DockerProvider]:
    made = DockerProvider(
        [replace(CONFIG, host=host, **config)],
        installation_id="inst-1",
        servers=("http://127.0.0.1:9",),
        dead_man=lambda _spec: 600.0,
        clock=SystemClock(),
        ids=SystemIds(),
        advance=no_phases,
    )
    yield made
    await made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "PATIENCE", 0.0)


async def test_a_wrong_socket_is_named_with_its_engine(tmp_path: Path, impatient: None) -> None:
    async with provider(f"unix://{tmp_path}/none.sock") as away:
        with pytest.raises(Refused, match=r"engine big \(unix://.*none\.sock\).*does not answer") as caught:
            await away.launch(asking("t1", template=template()))
        assert caught.value.reason is Reason.PROVIDER_ERROR
        with pytest.raises(Uncertain):
            await listed(away)
        (machine,) = (await away.describe([MACHINE.id])).values()
        assert machine.state is MachineState.UNKNOWN
        with pytest.raises(Uncertain):
            await away.terminate([MACHINE.id])
        verifier = DockerVerifier(away.engines, installation_id="inst-1")
        with pytest.raises(NotYet):
            await verifier.verify(f"docker:{MACHINE.id}:secret")
        (check,) = [check async for check in findings(away.engines["big"], [], [])]
        assert check.level == "failed" and "socket" in check.advice


@pytest.mark.parametrize("answer", GARBAGE, ids=repr)
@pytest.mark.parametrize("status", [200, 500])
async def test_an_engine_that_talks_nonsense_is_an_engine_that_does_not_answer(
    tmp_path: Path, impatient: None, answer: bytes, status: int
) -> None:
    with answering(tmp_path / "s", answer, status=status) as host:
        async with provider(host) as lied_to:
            calls: list[Callable[[], Any]] = [
                lambda: lied_to.launch(asking("t1", template=template())),
                lambda: listed(lied_to),
                lambda: lied_to.find("t1"),
                lambda: lied_to.describe([MACHINE.id]),
                lambda: lied_to.terminate([MACHINE.id]),
                lambda: lied_to.console(MACHINE.id, lines=5),
                lied_to.reconcile,
            ]
            for call in calls:
                try:
                    await call()
                except (Refused, Uncertain):
                    continue
            verifier = DockerVerifier(lied_to.engines, installation_id="inst-1")
            with pytest.raises((Forbidden, NotYet)):
                await verifier.verify(f"docker:{MACHINE.id}:secret")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (b"{}", "no Docker or Podman"),
        (b'{"ApiVersion": "1.24"}', "1.40 or newer is needed"),
        (b'{"ApiVersion": "x.y"}', "no Docker or Podman"),
    ],
)
async def test_an_engine_of_another_age_is_told_apart(
    tmp_path: Path, impatient: None, version: bytes, words: str
) -> None:
    with answering(tmp_path / "s", b"[]", version=version) as host:
        async with provider(host) as old:
            with pytest.raises(Refused, match=words):
                await old.launch(asking("t1", template=template()))


@pytest.mark.parametrize(
    ("said", "asked"),
    [("1.41 1.12", "1.41"), ("1.40 1.12", "1.40"), ("1.52 1.44", "1.44"), ("1.55 1.40", "1.41")],
)
async def test_the_api_version_is_one_that_the_engine_still_speaks(
    tmp_path: Path, said: str, asked: str
) -> None:
    newest, oldest = said.split()
    version = json.dumps({"ApiVersion": newest, "MinAPIVersion": oldest}).encode()
    with answering(tmp_path / "s", b"{}", version=version) as host:
        engine = Api(replace(CONFIG, host=host))
        assert await engine.version() == asked
        await engine.close()


# --- with real engines ------------------------------------------------------------------------------------


async def test_two_servers_never_put_more_on_an_engine_than_fits(lab: Lab) -> None:
    servers = [lab.provider(capacity=5), lab.provider(capacity=5)]

    async def ask(server: DockerProvider, token: str) -> int:
        try:
            request = asking(token, 2, template=template(), installation_id=lab.installation_id)
            return len((await server.launch(request)).machines)
        except Refused:
            return 0

    got = await asyncio.gather(*(ask(servers[at % 2], f"t{at}") for at in range(6)))
    living = await listed(servers[0])
    assert len(living) == sum(got) <= 5
    assert ids(await listed(servers[1])) == ids(living)


async def test_an_end_that_comes_first_keeps_the_container_from_starting(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(lab.asking("t1", 2))
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    over = ("", "exited", "stopped")
    await lab.until(lambda: all(lab.status(machine_id) in over for machine_id in ids(answer)))
    assert not await listed(provider)


async def test_one_fate_wins(lab: Lab) -> None:
    engine = lab.provider().engines["big"]
    fates = [Fate(machine_id=MACHINE.id, how=how, at=1.0) for how in (MADE, ENDED) * 4]
    found = await asyncio.gather(*(journal.write_fate(engine, lab.installation_id, fate) for fate in fates))
    assert len({fate.how for fate in found}) == 1
    assert await journal.read_fate(engine, MACHINE) == found[0]


async def test_a_half_made_container_is_made_anew_by_the_next_server(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starter, "TAKEOVER", 0.0)
    first = lab.provider()
    engine = first.engines["big"]
    request = lab.asking("t1", 1)

    died = asyncio.Event()

    async def dies(*_: object) -> None:
        died.set()
        raise asyncio.CancelledError

    monkeypatch.setattr(starter.Starter, "_start", dies)
    (machine,) = (await first.launch(request)).machines
    await died.wait()
    monkeypatch.undo()
    monkeypatch.setattr(starter, "TAKEOVER", 0.0)
    second = lab.provider()
    before = lab.inspect(machine.id)["Id"]
    async with asyncio.timeout(30):
        while (await second.describe([machine.id]))[machine.id].state is not MachineState.RUNNING:
            await second.reconcile()
            await asyncio.sleep(0.05)
    assert lab.inspect(machine.id)["Id"] != before
    assert await journal.read_fate(engine, names.parsed(machine.id) or MACHINE) is not None


async def test_what_is_left_of_ended_machines_is_removed_in_time_and_nothing_else(lab: Lab) -> None:
    provider = lab.provider(keep=0.001)
    label = f"{names.INSTALLATION}={lab.installation_id}"
    (gone,) = ids(await provider.launch(lab.asking("t1", 1)))
    (spared,) = ids(await provider.launch(lab.asking("t2", 1)))
    await lab.started(spared)
    await provider.terminate([gone])
    await until_gone(provider, [gone])
    async with asyncio.timeout(30):
        while len(lab.engine.containers(label)) > 1 or len(lab.volumes(label)) > 2:
            await listed(provider)
            await asyncio.sleep(0.05)
    assert not await provider.describe([gone])
    assert (await provider.describe([spared]))[spared].state is MachineState.RUNNING


async def test_an_agent_shows_the_secret_of_a_container_that_runs(lab: Lab) -> None:
    provider = lab.provider()
    (machine,) = (await provider.launch(lab.asking("t1", 1))).machines
    await lab.started(machine.id)
    verifier = DockerVerifier(provider.engines, installation_id=lab.installation_id)
    for proof in (
        f"docker:{machine.id}:wrong",
        f"docker:{machine.id}",
        "docker::",
        "x" * 600,
        "docker:a.b:c",
    ):
        with pytest.raises(Forbidden):
            await verifier.verify(proof)
    stranger = DockerVerifier(provider.engines, installation_id="inst-other")
    with pytest.raises(Forbidden, match="no such machine"):
        await stranger.verify(f"docker:{machine.id}:wrong")


@pytest.mark.parametrize(
    ("docker", "words"),
    [({"runtime": "none-such"}, "none-such"), ({"network": "none-such"}, "none-such")],
)
async def test_what_an_engine_does_not_have_is_told_in_its_words(
    lab: Lab, docker: dict[str, str], words: str
) -> None:
    provider = lab.provider()
    request = asking("t1", 1, template=template(**docker), installation_id=lab.installation_id)
    (machine,) = (await provider.launch(request)).machines
    await until_gone(provider, [machine.id])
    found = (await provider.describe([machine.id]))[machine.id]
    assert words in found.why and "engine big" in found.why
    assert found.reason in (Reason.PROVIDER_REFUSED, Reason.PROVIDER_ERROR)


async def test_limits_are_in_force(lab: Lab) -> None:
    provider = lab.provider()
    request = asking(
        "t1", 1, template=template(pids=40, tmp_mib=8), installation_id=lab.installation_id, size="small"
    )
    (machine,) = (await provider.launch(request)).machines
    await lab.started(machine.id)
    full = lab.run(machine.id, "sh", "-c", "dd if=/dev/zero of=/tmp/x bs=1M count=99 2>&1 | tail -1; true")
    assert b"8388608" in full or b"8.4 MB" in full
    forked = int(lab.run(machine.id, "python3", "-c", FORK).split(b"\n")[0][8:])
    assert 0 < forked < 40


async def test_doctor_says_what_an_engine_has_and_leaves_nothing(lab: Lab) -> None:
    provider = lab.provider()
    found = [
        check
        async for check in findings(
            provider.engines["big"],
            [
                template(),
                template(image="localhost/absent:1"),
                template(image="localhost/absent:1", pull="never"),
            ],
            ["http://127.0.0.1:9"],
        )
    ]
    words = " ".join(check.words for check in found)
    assert "API 1.41" in words and "has localhost/muster-test:latest" in words
    assert "waits for the pull" in words and "pull = never" in words
    assert "can't reach http://127.0.0.1:9" in words
    assert lab.engine.containers(f"{names.KIND}=doctor") == []


async def test_a_death_is_told_at_once_and_once(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(lab.asking("t1", 2))
    for machine in answer.machines:
        await lab.started(machine.id)
    first = asyncio.create_task(provider.ended())
    await asyncio.sleep(0)
    victim = answer.machines[0].id
    lab.engine.call("POST", f"/containers/{lab.container(victim)}/kill").raise_for_status()
    async with asyncio.timeout(10):
        (told,) = await first
    assert told.id == victim and "exit code 137" in told.why
    again = asyncio.create_task(provider.ended())
    other = answer.machines[1].id
    lab.engine.call("DELETE", f"/containers/{lab.container(other)}", params={"force": "true"})
    async with asyncio.timeout(10):
        (told,) = await again
    assert told.id == other and "removed by hand" in told.why
