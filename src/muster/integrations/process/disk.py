"""What `muster doctor` says about the disk of the data directory: how much is free, and who takes it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from muster.config import Connection
from muster.integration import Check, Level

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
        return Check(subject="data", level=Level.FAILED, words=f"cannot write to {place}", advice=advice)
    if free >= LEAST:
        return Check(subject="data", level=Level.OK, words=words)
    takers = _takers(nodes, found)
    if not takers:
        advice = "free some space, or choose another place with MUSTER_DATA_DIR"
        return Check(subject="data", level=Level.WARNING, words=words, advice=advice)
    advice = "release or terminate what takes too much; `directory` under [process] keeps nodes elsewhere"
    words = f"{words}; most is taken by {', '.join(takers)}"
    return Check(subject="data", level=Level.WARNING, words=words, advice=advice)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= _MIB * 100 else f"{count / _MIB:.1f} MiB"


def _takers(root: Path, found: Connection) -> list[str]:
    """The nodes with most on the disk, by name."""
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
    """Machines as people know them, if the server tells."""
    from muster.domain.errors import MusterError

    try:
        return dict(_known(found))
    except MusterError:
        return {}


def _known(found: Connection) -> Iterator[tuple[str, str]]:
    from muster.cli.connection import open_client
    from muster.client import calls

    with open_client(found.data_dir) as client:
        for node in client.send(calls.nodes(limit=500)).items:
            yield node.machine_id, f"{node.id} (run {node.run})" if node.run else node.id
