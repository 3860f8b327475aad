"""The tree of slots: what is on disk, and what it proves.

    root/launching.lock             held while machines are being made
    root/<name of token>/grant.json what was asked for with this token, and how much of it was granted
    root/<name>/closed              every slot is gone and its directory may be too
    root/<name>/<ordinal>/          one slot, which is one machine:
        lock          locked as long as the slot's keeper lives, whatever started it and whatever died since
        started.json  written durably before the keeper is started: a slot that has it is never started again
        keeper.json   the keeper's pid and start time, written by the keeper
        terminate     the end was asked for, and when
        gone          nothing of it is left
        work/, tmp/   the node's own;  console.log, console.1.log: what it said
        stage/, passwd, group   what its sandbox is made with

Owns names, paths and durable writes. Refuses whatever doesn't look like its own: other directories are not
seen.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")

_TOKEN_DIR = re.compile(r"l-[0-9a-f]{24}", re.ASCII)
_ORDINAL = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """What a token stands for. Written once before the first machine; cut if the rest can't be had."""

    token: str
    installation_id: str
    fingerprint: str
    count: int
    granted: int
    instance_type: str
    usage_class: str
    at: float
    reason: str | None = None
    """Why less was granted than asked for: a word of `muster.domain.reasons`."""
    message: str = ""


@dataclass(frozen=True)
class Started:
    """What was fixed before the keeper was started. The secret is here only as its hash."""

    machine_id: str
    marker: str
    """Stands in the environment of everything the node starts: `MUSTER_SLOT=<marker>`."""
    secret_sha256: str
    boot_id: str
    at: float
    isolation: str
    limits: list[str]
    cgroup: str
    """The node's cgroup, or nothing."""


@dataclass(frozen=True)
class Kept:
    """The keeper's own record."""

    pid: int
    start_time: str


@dataclass(frozen=True)
class Slot:
    path: Path
    machine_id: str
    ordinal: int
    grant: Grant
    closed: bool = False

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def console(self) -> Path:
        return self.path / "console.log"

    @property
    def started(self) -> bool:
        return self.closed or (self.path / "started.json").exists()

    @property
    def gone(self) -> bool:
        """Known to be gone. A slot that isn't may be gone too: look at its lock."""
        return self.closed or (self.path / "gone").exists()

    def record(self) -> Started | None:
        data = read(self.path / "started.json")
        return None if data is None else _record(Started, data)

    def kept(self) -> Kept | None:
        data = read(self.path / "keeper.json")
        return None if data is None else _record(Kept, data)

    def mark_started(self, record: Started, plan: Mapping[str, Any]) -> None:
        write(self.path / "started.json", {**asdict(record), "plan": plan})

    def ask_for_end(self, now: float) -> None:
        if not (self.path / "terminate").exists():
            with suppress(FileNotFoundError):
                write(self.path / "terminate", {"at": now})

    def end_asked_at(self) -> float | None:
        return _time(self.path / "terminate")

    def mark_gone(self, now: float) -> None:
        # A process that marked it before us may have removed it already.
        with suppress(FileNotFoundError):
            write(self.path / "gone", {"at": now})

    def gone_at(self) -> float | None:
        return _time(self.path / "gone")

    def make(self) -> int:
        """Make the directory and take its lock. The descriptor holds it until the last copy is closed."""
        for directory in (self.path, self.work, self.tmp):
            directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Waits at most for a process that is just looking whether it is locked.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def locked(self) -> bool:
        return is_locked(self.path / "lock")


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of this file. A file that is not there has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Tree:
    """Every slot of one installation under one root."""

    def __init__(self, root: Path, installation_id: str) -> None:
        self.root = root
        self.installation_id = installation_id

    def directory(self, token: str) -> Path:
        return self.root / f"l-{hashlib.sha256(token.encode()).hexdigest()[:24]}"

    def grant(self, directory: Path) -> Grant | None:
        """What this directory's token stands for; None if it was never used or isn't this installation's."""
        data = read(directory / "grant.json")
        grant = None if data is None else _record(Grant, data)
        return grant if grant is not None and grant.installation_id == self.installation_id else None

    def write_grant(self, grant: Grant) -> None:
        directory = self.directory(grant.token)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync(self.root)
        write(directory / "grant.json", asdict(grant))

    def directories(self) -> Iterator[tuple[Path, Grant]]:
        """In order of their names."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.root) if _TOKEN_DIR.fullmatch(entry.name))
        except FileNotFoundError:
            return
        for name in names:
            grant = self.grant(self.root / name)
            if grant is not None:
                yield self.root / name, grant

    def slots(self, directory: Path, grant: Grant) -> tuple[Slot, ...]:
        """The granted slots of one token, started or not."""
        closed = (directory / "closed").exists()
        return tuple(self._slot(directory, ordinal, grant, closed) for ordinal in range(grant.granted))

    def all_slots(self) -> Iterator[Slot]:
        for directory, grant in self.directories():
            yield from self.slots(directory, grant)

    def slot(self, machine_id: str) -> Slot | None:
        """The slot that a machine id names, if it is one of ours."""
        name, _, ordinal = machine_id.partition(".")
        if not _TOKEN_DIR.fullmatch(name) or not _ORDINAL.fullmatch(ordinal):
            return None
        grant = self.grant(self.root / name)
        if grant is None or int(ordinal) >= grant.granted:
            return None
        closed = (self.root / name / "closed").exists()
        return self._slot(self.root / name, int(ordinal), grant, closed)

    def _slot(self, directory: Path, ordinal: int, grant: Grant, closed: bool) -> Slot:
        return Slot(
            path=directory / str(ordinal),
            machine_id=f"{directory.name}.{ordinal}",
            ordinal=ordinal,
            grant=grant,
            closed=closed,
        )


def running(root: Path) -> dict[str, int]:
    """How many nodes live under a root, by installation, whichever that is."""
    found: dict[str, int] = {}
    for grant in sorted(root.glob("l-*/grant.json")):
        data = read(grant)
        name = None if data is None else data.get("installation_id")
        if isinstance(name, str):
            tree = Tree(root, name)
            granted = tree.grant(grant.parent)
            slots = tree.slots(grant.parent, granted) if granted is not None else ()
            alive = sum(slot.started and not slot.gone and slot.locked() for slot in slots)
            if alive:
                found[name] = found.get(name, 0) + alive
    return found


def _record(kind: type[T], data: Mapping[str, Any]) -> T:
    """What a file says; a newer version may have written more."""
    known = (each.name for each in fields(kind))  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: data[name] for name in known if name in data})


@contextmanager
def launching(root: Path, patience: float) -> Iterator[bool]:
    """The one turn, among all processes, to change what exists under this root; False if it can't be had in
    time."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(root / "launching.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _locked(descriptor, time.monotonic() + patience)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, latest: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= latest:
                return False
            time.sleep(0.01)  # in a thread; the kernel knows no wait for a lock with an end
        else:
            return True


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Whole or not at all, and still there after a power cut."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


def read(path: Path) -> dict[str, Any] | None:
    try:
        data: object = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _time(path: Path) -> float | None:
    data = read(path)
    at = None if data is None else data.get("at")
    return float(at) if isinstance(at, (int, float)) else None
