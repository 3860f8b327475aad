"""Machines as copies of one that has booted, and what happens if that fails."""

import asyncio
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from muster.domain.template import ResourceClass, TemplateSpec
from muster.integrations.kvm import guest_identity, snapshots
from muster.integrations.kvm.doctor import _snapshots
from muster.integrations.kvm.provider import KvmProvider
from muster.integrations.kvm.qemu import Hardware
from muster.integrations.kvm.snapshots import Recipe, Snapshots, identity, no_identity, reports, snapshots_of
from muster.integrations.kvm.tables import QEMU, TEMPLATE, Accelerator, KvmSpec
from muster.slots.processes import running
from muster.testing.provider_contract import asking, ids
from tests.integrations.kvm.lab import PATIENCE, Lab, needs_microvms, table

WEEK = 7 * 86_400.0
SLACK = 60.0
RESTORED = guest_identity.RESTORED.encode()


def whole(**changes: Any) -> TemplateSpec:
    """Guests with an agent; they call no server."""
    return TemplateSpec(name="work", provider="kvm", tables={"kvm": table(**changes)})


async def report(lab: Lab) -> Mapping[str, Any]:
    """Wait until the maker has ended, with a snapshot or without."""
    async with asyncio.timeout(PATIENCE):
        while not (found := list(reports(snapshots_of(lab.root)))):  # noqa: ASYNC110 — a file has no signal
            await asyncio.sleep(0.05)
    return found[0]


async def says(lab: Lab, machine_id: str, words: bytes) -> str:
    console = lab.slot(machine_id).console
    async with asyncio.timeout(PATIENCE):
        while words not in (said := await asyncio.to_thread(console.read_bytes)):  # noqa: ASYNC110 — as above
            await asyncio.sleep(0.02)
    return said.decode()


class Joins(ThreadingHTTPServer):
    """A server that keeps what joining agents say, and never lets one in."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Refusal)
        self.bodies: dict[str, dict[str, Any]] = {}
        """The first of each machine, by its id."""

    def provider(self, lab: Lab, **changes: Any) -> KvmProvider:
        return lab.provider(servers=(f"http://127.0.0.1:{self.server_port}",), **changes)

    async def first_of(self, machine_id: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while machine_id not in self.bodies:  # noqa: ASYNC110 — a thread's
                await asyncio.sleep(0.02)
        return self.bodies[machine_id]


class _Refusal(BaseHTTPRequestHandler):
    server: Joins

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.setdefault(body["proof"].split(":")[1], body)
        self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def joins() -> Iterator[Joins]:
    with Joins() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "snapshots"


@pytest.fixture
async def furnished(lab: Lab, kept: Path, joins: Joins) -> Lab:
    """A lab with a snapshot. The first test that needs it waits until it was made."""
    if await asyncio.to_thread(kept.exists):
        shutil.copytree(kept, snapshots_of(lab.root), copy_function=os.link)
    else:
        provider = joins.provider(lab)
        (machine_id,) = ids(await provider.launch(asking("first", template=whole())))
        assert (await report(lab))["why"] == ""
        assert RESTORED.decode() not in lab.slot(machine_id).console.read_text()
        await provider.terminate([machine_id])
        shutil.copytree(snapshots_of(lab.root), kept, copy_function=os.link)
    return lab


@needs_microvms
async def test_machines_are_restored_each_with_a_name_and_numbers_of_its_own_and_the_time(
    furnished: Lab, joins: Joins
) -> None:
    ahead = joins.provider(furnished, now=lambda: time.time() + WEEK)
    made = ids(await ahead.launch(asking("t1", 2, template=whole())))
    for machine_id in made:
        said = await says(furnished, machine_id, b": join")
        assert said.splitlines()[0] == f"{guest_identity.RESTORED} {machine_id}"
        assert "Linux version" not in said
        then = datetime.strptime(said.splitlines()[1].split()[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        assert WEEK - SLACK < then.timestamp() - time.time() < WEEK + SLACK
    # An agent draws the key of its join right after it learns who it is.
    assert len({(await joins.first_of(machine_id))["key"] for machine_id in made}) == len(made)


@needs_microvms
async def test_a_snapshot_that_is_damaged_makes_machines_boot_and_is_made_anew(
    furnished: Lab, joins: Joins
) -> None:
    (state,) = snapshots_of(furnished.root).glob("*/*/state")
    state.unlink()
    state.write_bytes(b"no state of a machine")
    provider = joins.provider(furnished)
    (machine_id,) = ids(await provider.launch(asking("t1", template=whole())))
    said = await says(furnished, machine_id, b"muster: the dead man's switch is set")
    assert "the snapshot could not be restored, so the machine boots: the agent ended with exit" in said
    (check,) = _snapshots(snapshots_of(furnished.root))
    assert "template work, class small: there is no snapshot" in check.words
    assert "could not be restored" in check.words
    (again,) = ids(await provider.launch(asking("t2", template=whole())))
    assert "so its machines boot: the snapshot could not" in furnished.slot(again).console.read_text()
    await makers_pids(furnished)


@needs_microvms
async def test_a_maker_that_is_killed_leaves_no_machine_and_the_next_launch_makes_it(lab: Lab) -> None:
    provider = lab.provider()
    await provider.launch(asking("t1", template=whole()))
    maker, qemu = await makers_pids(lab)
    os.kill(maker, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while running(qemu):  # noqa: ASYNC110 — no child of ours
            await asyncio.sleep(0.02)
    assert list(reports(snapshots_of(lab.root))) == []
    await provider.launch(asking("t2", template=whole()))
    assert (await makers_pids(lab))[0] != maker


async def makers_pids(lab: Lab) -> tuple[int, int]:
    """Wait until the maker's machine runs."""
    async with asyncio.timeout(PATIENCE):
        while (found := await asyncio.to_thread(_find_maker, snapshots_of(lab.root))) is None:  # noqa: ASYNC110 — as above
            await asyncio.sleep(0.02)
    return found


def _find_maker(root: Path) -> tuple[int, int] | None:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_text().split("\0")
            parent = int((entry.parent / "stat").read_text().rpartition(")")[2].split()[1])
            if QEMU in words[0] and any(str(root) in word for word in words):
                return parent, int(entry.parent.name)
    return None


@needs_microvms
async def test_a_guest_that_never_waits_for_its_identity_boots_each_time_and_doctor_says_why(
    lab: Lab,
) -> None:
    lab.disk.write_bytes(bytes(1 << 20))
    provider = lab.provider()
    # This kernel finds no root file system and panics.
    template = lab.template(snapshot=True, cmdline="quiet", initrd=table()["initrd"])
    await provider.launch(asking("t1", template=template))
    assert f"ended before it said '{guest_identity.READY}'" in (await report(lab))["why"]
    (again,) = ids(await provider.launch(asking("t2", template=template)))
    said = lab.slot(again).console.read_text()
    assert said.startswith("muster: there is no snapshot of template work, so its machines boot: the machine")
    assert len(list(snapshots_of(lab.root).glob("*/*"))) == 2, "a lock and one directory: not tried again"


@needs_microvms
async def test_a_host_without_the_program_for_disks_boots_machines_and_says_how_to_get_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "IMAGE_TOOL", "no-such-program")
    await lab.provider().launch(asking("t1", template=whole()))
    assert "apt-get install qemu-utils" in (await report(lab))["why"]


def test_identities_have_one_size_so_that_a_guest_reads_all_of_each() -> None:
    sizes = {len(no_identity("x")), len(identity("l-" + "0" * 24 + ".999999", now=1e10 / 3, secret="s" * 43))}
    assert sizes == {guest_identity.SIZE}


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    for name in ("kernel", "root"):
        (tmp_path / name).write_text(name)
    spec = KvmSpec(kernel=str(tmp_path / "kernel"), root=str(tmp_path / "root"))
    size = ResourceClass(name="small", cpu=1, memory_mib=1024)
    hardware = Hardware(qemu=QEMU, accelerator=Accelerator.TCG, spec=spec, size=size)
    return Recipe(template="work", hardware=hardware, version="7.2", script="start")


@pytest.mark.parametrize("changed", ["version", "script", "kernel", "root", "cpu", "cmdline", "accelerator"])
def test_a_snapshot_is_of_no_use_once_anything_that_it_was_made_from_has_changed(
    recipe: Recipe, changed: str
) -> None:
    before, hardware = recipe.key, recipe.hardware
    if changed in ("kernel", "root"):
        beside = Path(getattr(hardware.spec, changed)).with_name("new")
        beside.write_text("other")
        beside.replace(getattr(hardware.spec, changed))
        after = recipe
    elif changed == "cpu":
        after = replace(recipe, hardware=replace(hardware, size=replace(hardware.size, cpu=2)))
    elif changed == "cmdline":
        after = replace(recipe, hardware=replace(hardware, spec=replace(hardware.spec, cmdline="quiet")))
    elif changed == "accelerator":
        after = replace(recipe, hardware=replace(hardware, accelerator=Accelerator.KVM))
    elif changed == "version":
        after = replace(recipe, version="7.3")
    else:
        after = replace(recipe, script="other")
    assert recipe.key != before if after is recipe else after.key != before
    assert after.group == recipe.group, "the maker of the new one removes the old one"


def test_a_snapshot_that_no_launch_used_for_a_week_is_removed_by_the_next_maker(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "IMAGE_TOOL", "no-such-program")
    now, kept = time.time(), Snapshots(tmp_path / "snapshots")
    for name in ("used", "unused"):
        path = tmp_path / "snapshots" / replace(recipe, template=name).group / recipe.key
        path.mkdir(parents=True)
        (path / "manifest.json").write_text(json.dumps({"template": name, "class": "small"}))
    assert kept.find(replace(recipe, template="used"), now=now + 1) is not None
    assert kept.make(recipe, now=now + WEEK + 0.5) is None
    assert sorted(each["template"] for each in reports(tmp_path / "snapshots")) == ["used", "work"]


def test_a_template_may_do_without_snapshots() -> None:
    assert TEMPLATE._read({"kernel": "/k", "root": "/r", "snapshot": False}).snapshot is False
