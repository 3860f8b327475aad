"""Nodes as microVMs, the whole way: a real server, QEMU under emulation, the agent in a guest."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.github import FakeGitHub
from muster.client import calls
from muster.domain.errors import InvalidRequest
from muster.integrations.kvm.snapshots import reports, snapshots_of
from muster.integrations.kvm.tables import QEMU
from muster.slots.processes import carriers
from tests.cli.terminal import Terminal
from tests.e2e.shells import walk_through_a_shell
from tests.e2e.site import BRISK, Site, until, words_of
from tests.e2e.workflows import Workflows, settings
from tests.integrations.kvm.lab import needs_microvms, table

CONFIG = f"{BRISK}[process]\ncapacity = 0\n[kvm]\ncapacity = 3\naccelerator = 'tcg'\ndirectory = '{{}}'\n"
BOOT = 100.0
"""Seconds for a boot under emulation, beside other tests."""
SLACK = 10.0
"""Seconds between a job's look at its clock and ours."""


def console(site: Site, machine_id: str) -> str:
    (slot,) = (slot for slot in site.slots() if slot.machine_id == machine_id)
    return slot.console.read_text()


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    return tmp_path / "machines"


@pytest.fixture
def site(make_site: Callable[..., Site], machines: Path) -> Site:
    return make_site(config=CONFIG.format(machines), machines=machines).start()


@needs_microvms
def test_a_microvm_is_made_used_kept_warm_and_ended(site: Site, machines: Path) -> None:
    with pytest.raises(InvalidRequest, match="reuse"):
        site.template(provider="kvm", tables={"kvm": table()}, reuse="always")
    site.template(provider="kvm", tables={"kvm": table()})
    asked = site.ask(calls.provision(site.request(1, "cold")))
    cold = site.succeeded(asked, BOOT)
    (before,) = site.members(cold)
    site.succeeded(site.release(cold))

    script = "echo $MUSTER_RUN; cat /sys/firmware/qemu_fw_cfg/by_name/opt/muster/secret/raw; id -u"
    run = site.succeeded(site.run("sh", "-c", script, run="warm"))
    (command,) = site.commands(run)
    said = site.output(command).decode().splitlines()
    assert said[0] == "warm" and said[-1] == "0"
    assert not [line for line in said if before.machine_id in line]
    (after,) = site.members(site.child(run))
    assert after.machine_id == before.machine_id
    site.restart()  # a snapshot is made to its end without its server
    until(lambda: list(reports(snapshots_of(machines))), "the snapshot", BOOT)

    script = "cat /sys/class/net/eth0/address; head -c 16 /dev/urandom | base64; date +%s"
    run = site.succeeded(site.run("sh", "-c", script, count=3, run="copies"), BOOT)
    copies = {node.machine_id for node in site.members(site.child(run))} - {before.machine_id}
    assert len(copies) == 2
    for copy in copies:
        assert f"muster: restored from a snapshot as {copy}" in console(site, copy)
    told = [site.output(command).decode().split() for command in site.commands(run)]
    addresses, numbers, clocks = zip(*told, strict=True)
    assert len(set(addresses)) == len(set(numbers)) == 3
    assert all(abs(time.time() - float(clock)) < SLACK for clock in clocks)


LEAVE = (
    "cat input.txt >result.txt; echo mine >left; echo mine >$HOME/left; echo mine >$TMPDIR/left;"
    " setsid sleep 4242 >/dev/null 2>&1 &"
)
LOOK = "ls -A . $HOME $TMPDIR; cat /proc/[0-9]*/cmdline"


@needs_microvms
def test_files_come_and_go_nothing_stays_and_killed_servers_and_machines_are_survived(
    site: Site, machines: Path, tmp_path: Path
) -> None:
    site.template(provider="kvm", tables={"kvm": table(snapshot=False)})
    stranger = machines / "mine" / "note"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("not Muster's")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "input.txt").write_text("from here")
    terminal = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)})
    words = ("run", "-t", "ci", "--sync", "sent", "--get", "result.txt", "--results", "results")
    done = terminal.muster(*words, "--", "sh", "-c", LEAVE)
    assert done.code == 0, done.err
    (result,) = (tmp_path / "results").rglob("result.txt")
    assert result.read_text() == "from here"

    seen = site.succeeded(site.run("sh", "-c", LOOK, run="next"))
    found = site.output(site.commands(seen)[0])
    assert b"agent.py" in found and b"left" not in found and b"4242" not in found

    run = site.run("sh", "-c", "echo begun; sleep 4; echo done", run="long")
    site.commands_in("running", run)
    site.restart()
    assert site.output(site.commands(site.succeeded(run))[0]) == b"begun\ndone\n"

    held = site.provision(1, run="held")
    walk_through_a_shell(site, tmp_path, "held", within=BOOT)
    (node,) = site.members(held)
    (slot,) = (slot for slot in site.slots() if slot.machine_id == node.machine_id)
    record = slot.record()
    assert record is not None
    (qemu,) = (pid for pid, _ in carriers({record.marker}) if QEMU.encode() in words_of(pid).split(b"\0")[0])
    os.kill(qemu, signal.SIGKILL)
    assert site.node_in("terminated", node.id, within=20.0).reason == "machine_gone"
    assert stranger.read_text() == "not Muster's"


FORWARD = """
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    there = await asyncio.open_connection("10.0.2.2", int(sys.argv[1]))
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)
async def main():
    await (await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))).serve_forever()
asyncio.run(main())
"""
"""The small GitHub is known by a loopback address. A guest reaches it through its host."""


@needs_microvms
def test_a_microvm_is_a_runner_of_github(
    make_site: Callable[..., Site], machines: Path, tmp_path: Path
) -> None:
    github = FakeGitHub().start()
    try:
        port = github.url.rpartition(":")[2]
        boot = f"cat >/tmp/forward.py <<'E'{FORWARD}E\nsetsid python3 /tmp/forward.py {port} &\n"
        ci = '[templates.ci]\nprovider = "kvm"\nruntime = "github"\nresource_class = "small"\n'
        ci += f"boot_script = {json.dumps(boot)}\n[templates.ci.kvm]\n"
        ci += "".join(f"{key} = {json.dumps(value)}\n" for key, value in table(snapshot=False).items())
        given = f"{CONFIG.format(machines)}{settings(github, tmp_path / 'token')}{ci}"
        site = make_site(config=given, machines=machines).start()
        world = Workflows(site, github, tmp_path / "steps")
        run = world.begin()
        step = world.step(run, mode="provision", template="ci", instance_count="1").done()
        (job,) = world.jobs(run, step.outputs["label"], 1, script="whoami || id -un")
        assert job.conclusion == "success", job.output
        world.step(run, mode="release").done()
        until(lambda: world.states() == ["idle"], "a clean node")
        assert world.runners() == []
    finally:
        github.stop()
