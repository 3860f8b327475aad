"""Containers as nodes, on real engines: their life, and what hurts them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fakes.github import FakeGitHub
from muster.client import calls
from muster.integrations.docker import names
from tests.e2e.containers import CONFIG, ENGINE, container, inspected, none_runs, running, site_on, template
from tests.e2e.shells import walk_through_a_shell
from tests.e2e.site import Site, until
from tests.e2e.workflows import Workflows, settings
from tools.engines import getting
from tools.engines.registry import Registry
from tools.engines.running import IMAGE, NOBODY, Engine, archive

LEAVE = (
    "echo mine >$HOME/left; echo mine >/tmp/left; echo mine >/dev/shm/left; echo mine >/var/tmp/left;"
    " setsid sleep 1000 >/dev/null 2>&1 &"
)
LOOK = "cat $HOME/left /tmp/left /dev/shm/left /var/tmp/left 2>&1 | grep -c mine; ps -e -o args="
AWAY = 60.0


def said(site: Site, *argv: str, run: str, **more: Any) -> str:
    """What one command on one node says, as a run of its own."""
    ended = site.succeeded(site.run(*argv, run=run, **more))
    return site.output(site.commands(ended)[0]).decode()


def test_containers_are_made_used_kept_warm_and_ended(engine: Engine, make_site: Callable[..., Site]) -> None:
    site = site_on(make_site, engine)
    first = site.provision(2, run="first")
    assert first.status == "succeeded", first.error
    nodes = site.members(first)
    assert sorted(map(container, nodes)) == running(site, engine)
    site.release(first)
    second = site.provision(2, run="second")
    assert {node.machine_id for node in site.members(second)} == {node.machine_id for node in nodes}
    site.release(second)
    for node in nodes:
        site.ask(calls.terminate(node.id))
    none_runs(site, engine)
    assert {inspected(engine, node)["State"]["ExitCode"] for node in nodes} == {0}


def test_nothing_of_a_run_is_left_for_the_next(engine: Engine, make_site: Callable[..., Site]) -> None:
    site = site_on(make_site, engine)
    said(site, "sh", "-c", LEAVE, run="first")
    found = said(site, "sh", "-c", LOOK, run="second")
    assert found.startswith("0\n") and "sleep 1000" not in found
    assert len(running(site, engine)) == 1


def test_the_container_is_confined_and_its_secret_is_nowhere(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    site = site_on(make_site, engine)
    operation = site.provision(1)
    (node,) = site.members(operation)
    found = inspected(engine, node)
    host = found["HostConfig"]
    assert host["ReadonlyRootfs"] and host["Memory"] == host["MemorySwap"] == 1024 << 20
    assert host["PidsLimit"] == 4096
    status = said(
        site, "python3", "-c", "print(open('/proc/self/status').read())", run="run", template="ci"
    ).split()
    assert status[status.index("CapEff:") + 1] == "0" * 16
    assert status[status.index("NoNewPrivs:") + 1] == "1"
    assert "Read-only" in said(site, "sh", "-c", "echo x >/usr/x; echo $?; true", run="other")
    # The proof of a join is `docker:MACHINE:SECRET`; a secret has 43 characters.
    text = json.dumps(found)
    assert "secret-sha256" in text and f"docker:{node.machine_id}:" in text
    assert not [word for word in text.replace('"', " ").split() if len(word.rpartition(":")[2]) == 43]
    # Nor is its file there any more.
    assert "secret" not in said(site, "ls", "/muster", "/muster/node", run="ls").split()
    site.release(operation)


def test_a_person_looks_into_a_container(
    engine: Engine, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = site_on(make_site, engine)
    made = site.succeeded(site.provision(1, run="look"))
    walk_through_a_shell(site, tmp_path, "look")
    site.release(made)


def test_files_go_in_and_results_come_out(
    engine: Engine, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = site_on(make_site, engine)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "given").write_text("some words")
    argv = [
        "run",
        "-t",
        "ci",
        "--sync",
        "in",
        "--get",
        "out",
        "--",
        "sh",
        "-c",
        "mkdir out; cat given >out/got",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", *argv],
        cwd=tmp_path,
        env={**os.environ, "MUSTER_DATA_DIR": str(site.data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (got,) = tmp_path.glob("muster-results/**/got")
    assert got.read_text() == "some words"


def test_an_image_that_cannot_be_had_fails_the_node_in_the_engines_words(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    site = site_on(make_site, engine, image="127.0.0.1:1/nothing:1")
    operation = site.provision(1)
    assert operation.status == "failed" and operation.error is not None
    assert operation.error.reason == "provider_refused"
    assert "cannot pull 127.0.0.1:1/nothing:1 on engine" in operation.error.message
    template(site, "never", image="localhost/absent:1", pull="never")
    operation = site.provision(1, run="never", template="never")
    assert operation.error is not None and "pull = never" in operation.error.message
    template(site, "empty", python="python9")
    operation = site.provision(1, run="empty", template="empty")
    assert operation.error is not None and "exit code 127" in operation.error.message


def test_a_pull_is_a_phase_of_the_boot_and_outlives_the_server(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    with Registry(archive(getting.UNPACKED)).serving() as registry:
        site = site_on(make_site, engine, image=registry.image, pull="always")
        operation = site.ask(calls.provision(site.request(2)))
        assert registry.asked.wait(30.0)

        def pulling() -> bool:
            shown = [node for node in site.nodes() if node.phase == "pull_image"]
            return len(shown) == 2 and all(registry.image in (node.step or "") for node in shown)

        until(pulling, "both nodes to show the pull")
        site.restart()
        registry.go.set()
        assert site.succeeded(operation).status == "succeeded"
        assert len(running(site, engine)) == 2
    engine.call("DELETE", f"/images/{registry.image}", params={"force": "true"})


def test_a_container_that_is_removed_by_hand_is_noticed_and_a_strange_one_is_left_alone(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    site = site_on(make_site, engine)
    asked = {
        "Image": "localhost/muster-test:latest",
        "Cmd": ["sleep", "1000"],
        "HostConfig": {"NetworkMode": "host"},
    }
    own = engine.call(
        "POST", "/containers/create", params={"name": f"mine-{site.url[-5:]}"}, json=asked
    ).json()["Id"]
    try:
        engine.call("POST", f"/containers/{own}/start")
        operation = site.provision(2)
        removed, spared = site.members(operation)
        engine.call("DELETE", f"/containers/{container(removed)}", params={"force": "true", "v": "true"})
        ended = site.node_in("terminated", removed.id, within=20.0)
        assert ended.reason == "machine_gone" and "removed by hand" in ended.detail
        assert site.node(spared.id).state == "running"
        site.release(operation)
        site.ask(calls.terminate(spared.id))
        none_runs(site, engine)
        assert engine.call("GET", f"/containers/{own}/json").json()["State"]["Running"]
    finally:
        engine.call("DELETE", f"/containers/{own}", params={"force": "true"})


def test_a_killed_agent_is_noticed_at_once_and_its_exit_code_told(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    site = site_on(make_site, engine)
    operation = site.provision(1)
    (node,) = site.members(operation)
    os.kill(inspected(engine, node)["State"]["Pid"], signal.SIGKILL)
    ended = site.node_in("terminated", node.id, within=20.0)
    assert ended.reason == "machine_gone" and "exit code 137" in ended.detail
    site.release(operation)


def test_a_paused_container_is_ended_all_the_same(engine: Engine, make_site: Callable[..., Site]) -> None:
    site = site_on(make_site, engine)
    operation = site.provision(1)
    (node,) = site.members(operation)
    engine.call("POST", f"/containers/{container(node)}/pause").raise_for_status()
    site.ask(calls.terminate(node.id))
    site.node_in("terminated", node.id)
    none_runs(site, engine)


def test_a_killed_server_leaves_no_container_behind_and_finishes_its_launch(
    engine: Engine, make_site: Callable[..., Site]
) -> None:
    site = site_on(make_site, engine)
    for at, label in enumerate(("launch:calling", "launch:settled", "node:joined")):
        site.doom(label)
        operation = site.soon(lambda number=at: site.provision(2, run=f"run-{number}"))
        site.gone()
        site.start()
        ended = operation.result(60.0)
        assert ended.status == "succeeded", ended.error
        site.release(ended)
        for member in ended.members:
            site.ask(calls.terminate(member.node_id))
    none_runs(site, engine)


def test_a_podman_of_an_ordinary_user_has_nodes_too(
    own_engine: Callable[..., Engine], make_site: Callable[..., Site]
) -> None:
    engine = own_engine("podman", rootless=True)
    site = site_on(make_site, engine)
    who = "import os; print(os.getuid(), open('/proc/self/uid_map').read())"
    first = said(site, "sh", "-c", f'python3 -c "{who}"; echo mine >$HOME/left', run="first")
    assert first.split() == ["0", "0", str(NOBODY), "1"]
    (before,) = running(site, engine)
    assert said(site, "sh", "-c", "cat $HOME/left 2>&1 | grep -c mine; true", run="second") == "0\n"
    (node,) = site.nodes("idle")
    assert running(site, engine) == [before] == [container(node)]
    site.ask(calls.terminate(node.id))
    none_runs(site, engine)


def test_engines_are_one_pool(shared: Callable[[str], Engine], make_site: Callable[..., Site]) -> None:
    engines = [shared("podman"), shared("dockerd")]
    site = site_on(make_site, *engines, capacity=2)
    operation = site.provision(4)
    assert operation.status == "succeeded", operation.error
    assert [len(running(site, each)) for each in engines] == [2, 2]
    more = site.provision(1, run="more")
    assert more.error is not None and more.error.reason == "capacity"
    assert "none of 4 places on 2 engines is free" in more.error.message
    site.release(operation)


def test_podman_away_for_a_minute_costs_no_node_and_no_job(
    own_engine: Callable[..., Engine], make_site: Callable[..., Site]
) -> None:
    engine = own_engine("podman")
    site = site_on(make_site, engine)
    run = site.run("sh", "-c", f"sleep {AWAY + 5}; echo done")
    site.commands_in("running", run)
    engine.kill()
    refused = site.provision(1, run="refused")
    assert refused.error is not None and "does not answer" in refused.error.message
    time.sleep(AWAY - 20)  # what is tested: time without an engine
    engine.start()
    ended = site.succeeded(run, within=AWAY)
    assert site.output(site.commands(ended)[0]) == b"done\n"


@pytest.mark.parametrize("kind", ["podman", "dockerd"])
def test_an_engine_killed_while_it_makes_containers_leaks_none(
    kind: str, own_engine: Callable[..., Engine], make_site: Callable[..., Site]
) -> None:
    engine = own_engine(kind)
    site = site_on(make_site, engine)
    asked = site.ask(calls.provision(site.request(3)))
    until(lambda: engine.containers(f"{names.INSTALLATION}={site.installation_id}"), "a first container")
    engine.kill()
    engine.start()
    ended = site.ended(asked)
    if ended.error is None:
        assert sorted(map(container, site.members(ended))) == running(site, engine)
    elif kind == "podman":
        # Killed in the middle of one, it keeps the name and no container, or neither.
        assert any(
            words in ended.error.message
            for words in ("it was killed while it made it", "or a killed engine lost it")
        )
    else:
        # A dockerd that comes back ends what it had started.
        assert ended.error.reason in ("machine_gone", "provider_error"), ended.error
    for node in site.nodes("running", "idle"):
        site.ask(calls.terminate(node.id))
    none_runs(site, engine)


@pytest.mark.parametrize("restored", [True, False])
def test_a_killed_dockerd_ends_its_nodes_unless_it_restores_them(
    restored: bool, own_engine: Callable[..., Engine], make_site: Callable[..., Site]
) -> None:
    engine = own_engine("dockerd", options=("--live-restore",) if restored else ())
    site = site_on(make_site, engine)
    operation = site.provision(1)
    (node,) = site.members(operation)
    engine.kill()
    engine.start()
    if restored:
        assert site.node(node.id).state == "running"
        assert said(site, "echo", "here", run="run") == "here\n"
    else:
        assert site.node_in("terminated", node.id, within=30.0).reason == "machine_gone"
    site.release(operation)


def test_a_full_disk_is_told_in_the_engines_words_and_passes(
    own_engine: Callable[..., Engine], make_site: Callable[..., Site]
) -> None:
    engine = own_engine("podman", disk_mib=160)
    site = site_on(make_site, engine)
    filling = engine.root / "filling"
    with filling.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    failed = site.provision(1, run="full")
    assert failed.error is not None and "no space left on device" in failed.error.message
    filling.unlink()
    operation = site.provision(1, run="room")
    assert operation.status == "succeeded", operation.error
    site.release(operation)


def test_a_container_is_a_runner_of_github(
    engine: Engine, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    github = FakeGitHub().start()
    try:
        table = ENGINE.format(name="big", host=engine.host, capacity=4)
        ci = '[templates.ci]\nprovider = "docker"\nruntime = "github"\nresource_class = "small"\n'
        ci += f'[templates.ci.docker]\nimage = "{IMAGE}"\nuser = "1000"\n'
        given = f"{CONFIG}{table}{settings(github, tmp_path / 'token')}{ci}"
        world = Workflows(make_site(config=given).start(), github, tmp_path / "steps")
        run = world.begin()
        step = world.step(run, mode="provision", template="ci", instance_count="2").done()
        jobs = world.jobs(run, step.outputs["label"], 3)
        assert [job.conclusion for job in jobs] == ["success"] * 3
        world.step(run, mode="release").done()
        until(lambda: world.states() == ["idle", "idle"], "clean nodes")
        assert world.runners() == []
    finally:
        github.stop()


def test_a_job_out_of_memory_does_not_end_its_node(engine: Engine, make_site: Callable[..., Site]) -> None:
    site = site_on(make_site, engine)
    hungry = "x = []\nwhile True: x.append(bytearray(64 << 20))"
    ended = site.ended(site.run("python3", "-c", hungry))
    (command,) = site.commands(ended)
    assert command.signal == signal.SIGKILL
    assert len(running(site, engine)) == 1
