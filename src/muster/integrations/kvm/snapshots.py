"""Keep one snapshot of a booted, never used machine per template and class.

    root/<template and class>/lock          held by the maker
    root/<template and class>/<key>/        one snapshot; `snapshot_maker` says what is inside
    root/<template and class>/<key>/broken  a machine could not be restored from it

The key is a hash of all that the machine is made from: QEMU's version, kernel, images, start script, class.
If one of these changes, there is no snapshot under the new key, and the maker removes the old one. A machine
without a snapshot boots, so nothing here may stop a launch.
"""

import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from muster.domain.serialization import to_plain
from muster.integrations.kvm import guest_identity, snapshot_maker
from muster.integrations.kvm.guest_identity import SIZE
from muster.integrations.kvm.qemu import Hardware, mac_of
from muster.integrations.kvm.tables import Accelerator
from muster.slots.tree import is_locked, read, write

_ENTROPY = 64


def identity(machine: str, *, now: float, secret: str = "") -> bytes:
    """Return the identity of a machine. Without a secret, a copy wakes up and does nothing."""
    entropy = secrets.token_hex(_ENTROPY)
    content = {"machine": machine, "mac": mac_of(machine), "time": now, "entropy": entropy}
    return _padded(content | ({"secret": f"{machine}:{secret}"} if secret else {}))


def no_identity(name: str) -> bytes:
    """Return what a machine reads that waits for its identity."""
    return _padded({"mac": mac_of(name)})


def _padded(content: dict[str, object]) -> bytes:
    return json.dumps(content).encode().ljust(SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a snapshot is made from."""

    template: str
    hardware: Hardware
    version: str
    """QEMU's."""
    script: str

    @property
    def group(self) -> str:
        name = f"{self.template}/{self.hardware.size.name}"
        return hashlib.sha256(name.encode()).hexdigest()[:16]

    @property
    def key(self) -> str:
        """Return the key. Raises OSError if a file can't be looked at."""
        files = [_facts(path) for path in self.hardware.spec.files]
        host = Path("/proc/cpuinfo").read_text().partition("\n\n")[0] if self._on_host_processor else ""
        parts = [self.version, to_plain(self.hardware), self.script, files, _without_load(host)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def _on_host_processor(self) -> bool:
        return self.hardware.accelerator is Accelerator.KVM


def _facts(path: str) -> tuple[str, int, int, int]:
    found = Path(path).stat()
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def _without_load(processor: str) -> list[str]:
    """Leave out what changes while the machine runs."""
    return [line for line in processor.splitlines() if not line.startswith("cpu MHz")]


IMAGE_TOOL = "qemu-img"
PATIENCE = 300.0
"""Seconds for a boot, the saving and a trial, on a busy machine under emulation."""
RETRY = 600.0
"""Seconds after which a snapshot that could not be made is tried again."""
UNUSED = 7 * 86_400.0
INPUT_FD = snapshot_maker.STATE_FD


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot that is whole."""

    path: Path

    @property
    def disk(self) -> str:
        return f"file={self.path / 'disk.qcow2'},format=qcow2,snapshot=on"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def broken(self) -> Path:
        return self.path / "broken"


class Snapshots:
    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, recipe: Recipe, *, now: float) -> Snapshot | None:
        """Return the snapshot, if there is one that works."""
        path = self._path(recipe)
        found = Snapshot(path)
        if not (path / "manifest.json").exists() or found.broken.exists():
            return None
        with suppress(OSError):
            os.utime(path.parent, (now, now))  # when it was used last
        return found

    def why_not(self, recipe: Recipe) -> str:
        """Say why there is no snapshot; empty if none was tried yet."""
        return _trouble(self._path(recipe))

    def make(self, recipe: Recipe, *, now: float) -> int | None:
        """Start a maker, unless there is no use; return its pid, which is a child of this process."""
        path = self._path(recipe)
        failed = read(path / "failed.json") or {}
        if is_locked(path.parent / "lock") or now - failed.get("at", 0.0) < RETRY:
            return None
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget_unused(path.parent, now)
        tool = which(IMAGE_TOOL)
        if tool is None:
            why = f"{IMAGE_TOOL} is not installed; get it with: apt-get install qemu-utils"
            write(path / "failed.json", {**_manifest(recipe), "why": why, "at": now})
            return None
        (path / "start").write_text(recipe.script, encoding="utf-8")
        (path / "waiting").write_bytes(no_identity(path.name))
        (path / "trial").write_bytes(identity(f"trial-{path.name}", now=now))
        (path / "broken").unlink(missing_ok=True)
        (path / "manifest.json").unlink(missing_ok=True)
        write(path / "plan.json", _plan(recipe, path, tool))
        return _spawn(path)

    def _forget_unused(self, mine: Path, now: float) -> None:
        """Remove what no launch has used for a week, such as the snapshot of a template that is gone."""
        for group in sorted(self._root.iterdir()):
            if group != mine and now - group.stat().st_mtime > UNUSED and not is_locked(group / "lock"):
                shutil.rmtree(group, ignore_errors=True)

    def _path(self, recipe: Recipe) -> Path:
        return self._root / recipe.group / recipe.key


def snapshots_of(root: Path) -> Path:
    """Return where the snapshots are, under the root of the machines."""
    return root / "snapshots"


def reports(root: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what is known of each snapshot: `template`, `class`, `took` and `at`, or `why` there is none."""
    for path in sorted(root.glob("*/*/")):
        found = read(path / "manifest.json") or read(path / "failed.json")
        if found is not None:
            yield {**found, "why": _trouble(path)}


def _trouble(path: Path) -> str:
    broken = path / "broken"
    if broken.exists():
        return broken.read_text(errors="replace").strip()
    failed = read(path / "failed.json")
    return "" if failed is None else str(failed.get("why", ""))


def _manifest(recipe: Recipe) -> dict[str, Any]:
    return {"template": recipe.template, "class": recipe.hardware.size.name}


def _plan(recipe: Recipe, path: Path, tool: str) -> dict[str, Any]:
    spec, disk, start = recipe.hardware.spec, path / "disk.qcow2", path / "start"
    boot = recipe.hardware.command(
        name=path.name, disk=f"file={disk},format=qcow2", start=start, identity=path / "waiting"
    )
    trial = recipe.hardware.command(
        name=f"trial-{path.name}", disk=Snapshot(path).disk, start=start, identity=path / "trial"
    )
    monitor = f"socket,id=monitor,fd={snapshot_maker.MONITOR_FD}"
    return {
        "make_disk": [
            tool,
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            spec.root,
            "-F",
            spec.format.value,
            str(disk),
        ],
        "boot": [*boot, "-chardev", monitor, "-mon", "chardev=monitor,mode=control"],
        "ready": guest_identity.READY,
        "try": [*trial, *restoring()],
        "restored": f"{guest_identity.RESTORED} trial-{path.name}",
        "patience": PATIENCE,
        "manifest": _manifest(recipe),
    }


def restoring() -> list[str]:
    """Return the options of a machine that goes on from a snapshot's state."""
    return ["-incoming", f"fd:{INPUT_FD}"]


def _spawn(path: Path) -> int:
    """Start the maker in a session of its own: it finishes its work if the server ends."""
    argv = [sys.executable, "-I", "-S", snapshot_maker.__file__, str(path)]
    log = (os.POSIX_SPAWN_OPEN, 1, str(path / "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), log, (os.POSIX_SPAWN_DUP2, 1, 2)]
    environment = {"PATH": os.defpath, "TMPDIR": str(path)}
    return os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
