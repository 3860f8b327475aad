"""What a node sent, into a directory of its own: bounded, and never outside of it.

Nodes run what anybody gave them, so nothing in their archives is taken at its word.
"""

import os
import posixpath
import shutil
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.cli.exits import UsageProblem
from muster.domain.command import TREE_BYTES_MAX

_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    """Links and other things that lead elsewhere."""

    def missing(self, asked: Sequence[str]) -> list[str]:
        """Which of the paths that were asked for are not among what was sent."""
        sent = [posixpath.normpath(name) for name in (*self.names, *self.left_out)]
        return [path for path in asked if not any(_is_in(name, posixpath.normpath(path)) for name in sent)]


def _is_in(name: str, path: str) -> bool:
    return path in (".", name) or name.startswith(path + "/")


def unpack(archive: Path, into: Path) -> Unpacked:
    """Into an empty directory. Files first, links last: nothing is written through a link."""
    names: list[str] = []
    try:
        with tarfile.open(archive, "r:gz") as packed:
            members = _bounded(packed)
            names += [each.name for each in members if not each.issym() and _written(packed, each, into)]
            links = [each for each in members if each.issym() and _linked(each, into)]
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UsageProblem(f"cannot unpack the results into {into}: {error}") from error
    # Where a link leads depends on the others, so it is asked once all are there.
    for link in links:
        if _inside(into, link.name):
            names.append(link.name)
        else:
            (into / link.name).unlink()
    kept = set(names)
    return Unpacked(names=tuple(names), left_out=tuple(m.name for m in members if m.name not in kept))


def _bounded(packed: tarfile.TarFile) -> list[tarfile.TarInfo]:
    found: list[tarfile.TarInfo] = []
    total = 0
    for member in packed:
        total += member.size + _BLOCK
        if total > TREE_BYTES_MAX:
            raise tarfile.TarError(f"they are more than {TREE_BYTES_MAX >> 20} MiB")
        found.append(member)
    return found


def _written(packed: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> bool:
    """Whether it is a file or a directory, in here."""
    path = into / member.name
    if not _inside(into, member.name):
        return False
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():
        return _linked_hard(into, member.linkname, path)
    content = packed.extractfile(member) if member.isfile() else None
    if content is None:
        return False
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)
    path.chmod(member.mode & 0o755 | 0o600)
    with suppress(OverflowError):
        os.utime(path, (member.mtime, member.mtime))
    return True


def _linked_hard(into: Path, name: str, path: Path) -> bool:
    if not _inside(into, name) or not (into / name).is_file() or path.exists():
        return False
    path.hardlink_to(into / name)
    return True


def _linked(member: tarfile.TarInfo, into: Path) -> bool:
    """Made as it is, in a real directory: not through another link."""
    path = into / member.name
    if _real(path.parent) != _real(into) / posixpath.dirname(posixpath.normpath(member.name)):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        return False
    path.symlink_to(member.linkname)
    return True


def _inside(into: Path, name: str) -> bool:
    return _real(into / name).is_relative_to(_real(into))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, it takes a loop of links
