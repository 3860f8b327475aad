"""A disk that is full, a database that can't be written: clear errors, no damage, and on it goes."""

import asyncio
import fcntl
import os
import resource
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from muster.client import calls
from muster.domain.command import Execution
from muster.system import SystemIds
from tests.cli.terminal import Terminal
from tests.e2e.site import Site, until
from tests.stores.files import open_store


def _refused(http: httpx.Client) -> httpx.Response | None:
    """The answer to something that must be written, if it is a refusal."""
    body = {"template": "ci", "count": 1, "run": "run"}
    answer = http.post("/api/v1/provisions", json=body, headers={"Idempotency-Key": "same"})
    return answer if answer.status_code == 503 else None


def _check_refusal(site: Site, words: str) -> None:
    with site.http() as http:
        answer = until(lambda: _refused(http), "a refusal")
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["code"] == "store_unavailable"
        assert problem["detail"].startswith("cannot use the store: ") and words in problem["detail"]
        assert "retry-after" in answer.headers
        unready = until(lambda: _unready(http), "it to say that it is not ready")
        assert "the store" in unready["detail"]
        assert http.get("/healthz").status_code == 200
        assert http.get("/api/v1/nodes").status_code == 200


def _unready(http: httpx.Client) -> dict[str, str] | None:
    answer = http.get("/readyz")
    found: dict[str, str] = answer.json()
    return found if answer.status_code == 503 else None


def _recovers(site: Site) -> None:
    def ready() -> bool:
        with site.http() as http:
            return http.get("/readyz").status_code == 200

    until(ready, "it to be ready again")
    site.succeeded(site.provision(1, run="afterwards"))
    site.succeeded(site.run("true", run="afterwards too"))


def _mountable(path: Path) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "muster-test", str(path)], check=False, capture_output=True
    )
    return done.returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or not _mountable(disk):
        pytest.skip("a small disk can only be mounted by root, where mounting is allowed")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(disk: Path) -> Path:
    ballast = disk / "ballast"

    def full() -> bool:
        with suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 65536)
        return shutil.disk_usage(disk).free == 0

    until(full, "the disk to be full")
    return ballast


def test_a_full_disk_is_said_and_survived(small_disk: Path, make_site: Callable[..., Site]) -> None:
    site = make_site(reserve=True)
    site.data = small_disk / "data"
    site.start()
    site.template()
    held = site.succeeded(site.provision(1, run="before"))
    ballast = _fill(small_disk)
    _check_refusal(site, "the disk is full; free some space")
    ballast.unlink()
    _recovers(site)
    assert {node.state for node in site.members(held)} == {"running"}
    site.release(held)


def test_a_server_starts_on_a_full_disk_says_so_and_keeps_what_runs(
    small_disk: Path, make_site: Callable[..., Site]
) -> None:
    site = make_site(reserve=True)
    site.data = small_disk / "data"
    site.start()
    site.template()
    held = site.succeeded(site.provision(1, run="before"))
    assert site.stop() == 0
    ballast = _fill(small_disk)
    site.start()
    assert f"the disk of {site.data / 'muster.db'} is full" in site.words()
    assert "free some space" in site.words()
    assert {node.state for node in site.members(held)} == {"running"}
    ballast.unlink()
    _recovers(site)
    site.release(held)


def test_a_database_that_is_lost_or_replaced_ends_nothing_silently(make_site: Callable[..., Site]) -> None:
    site = make_site().start()
    site.template()
    held = site.succeeded(site.provision(1, run="before"))
    assert site.stop() == 0
    database = site.data / "muster.db"
    kept = database.rename(site.data / "kept.db")
    for size in (None, 0):
        if size is not None:
            database.touch()
        said = site.refused()
        assert f"the database {database} is {'missing' if size is None else 'empty'}" in said
        assert "1 node that runs for an earlier installation" in said and "--new-installation" in said
    asyncio.run(open_store(database, ids=SystemIds()).close())
    assert "belongs to another installation" in site.refused()
    kept.replace(database)
    site.start()
    assert {node.state for node in site.members(held)} == {"running"}
    assert site.release(held).status == "succeeded"


GREEDY = "cat /dev/zero > big; while :; do head -c 65536 /dev/zero >> big2; done 2>&-"
"""Takes all, and then whatever anybody else gives up."""


@pytest.mark.parametrize("way", ["release", "terminate", "max_runtime"])
def test_a_job_that_fills_the_disk_is_ended_and_its_room_is_back(
    small_disk: Path, make_site: Callable[..., Site], way: str, tmp_path: Path
) -> None:
    site = make_site(reserve=True)
    site.data = small_disk / "data"
    site._machines = site.data / "nodes"
    site.start()
    site.template()
    runtime = {"max_runtime": 20.0} if way == "max_runtime" else {}
    held = site.succeeded(site.provision(1, run="greedy", **runtime))
    execution = Execution(
        argv=(
            "sh",
            "-c",
            GREEDY,
        )
    )
    (command,) = site.ask(calls.execute(execution, operation_id=held.operation_id, key="greedy"))
    until(lambda: shutil.disk_usage(small_disk).free < 65536, "the disk to be full")
    _check_refusal(site, "the disk is full; free some space")
    said = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)}).muster("doctor")
    assert f"most is taken by {held.members[0].node_id} (run greedy) (" in said.out
    if way == "release":
        assert site.release(held).status == "succeeded"
    elif way == "terminate":
        site.ask(calls.terminate(held.members[0].node_id))
    until(lambda: site.ask(calls.command(command.id)).ended, "the command to end")
    until(lambda: shutil.disk_usage(small_disk).free > 4 * 2**20, "the room to be back")
    _recovers(site)


def test_a_command_that_filled_the_disk_and_ended_tells_its_end(
    small_disk: Path, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = make_site(reserve=True)
    site.data = small_disk / "data"
    site._machines = site.data / "nodes"
    site.start()
    site.template()
    held = site.succeeded(site.provision(1, run="filling"))
    terminal = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)})
    done = terminal.muster("exec", "filling", "--", "sh", "-c", "cat /dev/zero > big; exit 3")
    assert done.code == 3
    assert terminal.muster("release", "filling").code == 0
    assert site.operation(held.operation_id).status == "succeeded"
    _recovers(site)


def test_a_disk_that_takes_no_more_bytes_is_survived_also_across_a_kill(site: Site) -> None:
    """Files of the server can't grow: its limit is lowered from outside, as a quota would be."""
    held = site.succeeded(site.provision(1, run="before"))
    soft, hard = resource.prlimit(site.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(site.pid, resource.RLIMIT_FSIZE, (0, hard))
    _check_refusal(site, "the disk")
    resource.prlimit(site.pid, resource.RLIMIT_FSIZE, (soft, hard))
    _recovers(site)
    resource.prlimit(site.pid, resource.RLIMIT_FSIZE, (0, hard))
    with site.http() as http:
        until(lambda: _refused(http), "a refusal")
    site.kill()
    site.start()
    assert {node.state for node in site.members(held)} == {"running"}
    _recovers(site)
    site.release(held)


def test_a_read_only_database_is_one_sentence_at_start_and_nothing_is_lost(
    tmp_path: Path, make_site: Callable[..., Site]
) -> None:
    site = make_site().start()
    site.template()
    held = site.succeeded(site.provision(1, run="before"))
    assert site.stop() == 0
    if os.geteuid() == 0:
        if subprocess.run(["mount", "--bind", str(site.data), str(site.data)], check=False).returncode:
            pytest.skip("root may write anything, and mounting is not allowed here")
        subprocess.run(["mount", "-o", "remount,bind,ro", str(site.data)], check=True)
        try:
            said = site.refused()
        finally:
            subprocess.run(["umount", "--lazy", str(site.data)], check=True)
    else:
        for path in site.data.glob("muster.db*"):
            path.chmod(0o400)
        said = site.refused()
        for path in site.data.glob("muster.db*"):
            path.chmod(0o600)
    assert said.startswith("error: cannot use the ") and "ead-only" in said
    site.start()
    assert site.ask(calls.operation(held.operation_id)).status == "succeeded"
    assert site.release(held).status == "succeeded"


_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10


def _freeze(path: Path, *, frozen: bool) -> None:
    """Refuse all writes, even through open files: as a file system does that went read-only."""
    with path.open("rb") as file:
        (flags,) = struct.unpack("l", fcntl.ioctl(file, _GET_FLAGS, struct.pack("l", 0)))
        flags = flags | _IMMUTABLE if frozen else flags & ~_IMMUTABLE
        fcntl.ioctl(file, _SET_FLAGS, struct.pack("l", flags))


def _freezable(folder: Path) -> bool:
    probe = folder / "probe"
    with probe.open("wb", buffering=0) as file:
        try:
            _freeze(probe, frozen=True)
        except OSError:
            return False
        try:
            file.write(b"x")
        except PermissionError:
            return True
        finally:
            _freeze(probe, frozen=False)
    return False


@pytest.fixture
def frozen(site: Site, tmp_path: Path) -> Iterator[Callable[[bool], None]]:
    if not _freezable(tmp_path):
        pytest.skip("open files can only be made read-only by root, on ext4")

    def turn(on: bool) -> None:
        for name in (
            "muster.db",
            "muster.db-wal",
        ):  # not the map of the log: a process that maps it would be killed
            if (site.data / name).exists():
                _freeze(site.data / name, frozen=on)

    yield turn
    turn(False)


def test_a_database_that_becomes_read_only_is_said_and_goes_on_when_it_is_writable_again(
    site: Site, frozen: Callable[[bool], None]
) -> None:
    held = site.succeeded(site.provision(1, run="before"))
    frozen(True)
    _check_refusal(site, "its file system is read-only")
    frozen(False)
    _recovers(site)
    assert {node.state for node in site.members(held)} == {"running"}
    frozen(True)
    with site.http() as http:
        until(lambda: _refused(http), "a refusal")
    site.kill()
    frozen(False)
    site.start()
    _recovers(site)
    assert site.release(held).status == "succeeded"
