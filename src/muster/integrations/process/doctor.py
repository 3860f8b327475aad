"""Check nodes on this machine for `muster doctor`: disk, isolation and limits in force."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from muster.config import Connection, find_server
from muster.integration import Check, Level, Machine
from muster.integrations.process.isolation_report import Report
from muster.integrations.process.provider import ProcessProvider
from muster.integrations.process.sandbox import Isolation
from muster.integrations.process.tables import ProcessConfig


def checks(machine: Machine) -> Iterator[Check]:
    settings: ProcessConfig = machine.config.tables["process"]
    found = find_server(os.environ, machine.data)
    yield disk(found, settings.directory or machine.data / "nodes")
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        yield Check.ok("bubblewrap", bwrap)
    elif sys.platform == "linux":
        advice = "install the package bubblewrap; nodes then don't see each other, HOME or the data directory"
        yield Check.warning("bubblewrap", "not installed", advice)
    for fact in in_force(machine.data, settings).facts:
        level = Level.OK if fact.fine else Level.WARNING
        yield Check(subject=fact.subject, level=level, words=fact.words)


def in_force(data: Path, settings: ProcessConfig) -> Report:
    """Return what isolation and limits nodes on this machine have."""
    with tempfile.TemporaryDirectory(prefix="muster-doctor-") as scratch:
        provider = ProcessProvider(
            # Looking must not make a data directory.
            data / "nodes" if (data / "nodes").is_dir() else Path(scratch) / "nodes",
            installation_id="doctor",
            servers=(),
            capacity=settings.capacity,
            isolation=Isolation(settings.isolation),
        )
        return asyncio.run(provider.report())


LEAST = 1 << 30
"""Bytes that a few nodes with their workspaces need at the least."""
_NAMED = 3
_MIB = 1 << 20


def disk(found: Connection, nodes: Path) -> Check:
    data = found.data_dir
    place = next(path for path in (data, *data.parents) if path.exists())
    free = shutil.disk_usage(place).free
    words = f"{_size(free)} free for {data}"
    if not os.access(place, os.W_OK):
        advice = "give this user the right to write there, or choose another place with MUSTER_DATA_DIR"
        return Check.failed("data", f"cannot write to {place}", advice)
    if free >= LEAST:
        return Check.ok("data", words)
    takers = _takers(nodes, found)
    if not takers:
        return Check.warning("data", words, "free some space, or choose another place with MUSTER_DATA_DIR")
    advice = "release or terminate what takes too much; `directory` under [process] keeps nodes elsewhere"
    return Check.warning("data", f"{words}; most is taken by {', '.join(takers)}", advice)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= _MIB * 100 else f"{count / _MIB:.1f} MiB"


def _takers(root: Path, found: Connection) -> list[str]:
    """Return the nodes with most on the disk, by name."""
    sizes = sorted(((_taken(slot), slot) for slot in root.glob("l-*/*") if slot.is_dir()), reverse=True)
    large = [(size, f"{slot.parent.name}.{slot.name}") for size, slot in sizes[:_NAMED] if size >= _MIB]
    names = _names(found) if large else {}
    return [f"{names.get(machine, f'machine {machine}')} ({_size(size)})" for size, machine in large]


def _taken(directory: Path) -> int:
    return sum(_blocks(Path(base) / name) for base, _, names in os.walk(directory) for name in names)


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0  # gone meanwhile


def _names(found: Connection) -> dict[str, str]:
    """Return the names of machines, if the server tells them."""
    from muster.domain.errors import MusterError

    try:
        return dict(_known(found))
    except MusterError:
        return {}


def _known(found: Connection) -> Iterator[tuple[str, str]]:
    from muster.cli.connection import calls, open_client

    with open_client(found.data_dir) as client:
        for node in client.send(calls.nodes(limit=500)).items:
            yield node.machine_id, f"{node.id} (run {node.run})" if node.run else node.id
