"""Fetch the results of each node, and unpack each archive into a directory of its own.

Nodes run untrusted code, so nothing in an archive is trusted. Its size is bounded, and nothing is written
outside of its directory. Earlier results of the same number are replaced, and missing paths are named.
"""

import gzip
import io
import os
import posixpath
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.client import ServerProblem, SyncClient
from muster.domain.command import TREE_BYTES_MAX
from muster.domain.errors import NotFound

if TYPE_CHECKING:
    from muster.wire.commands import Command


_BLOCK = 512
MEMBERS_MOST = 200_000
LEVELS_MOST = 200
READ_MOST = 4 << 20
"""Bytes that are read at once: a header may be as long as that, and content is copied in smaller parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    """Links and other things that lead elsewhere."""

    def missing(self, asked: Sequence[str]) -> list[str]:
        """Return which of the requested paths were not sent."""
        sent = [posixpath.normpath(name) for name in (*self.names, *self.left_out)]
        return [path for path in asked if not any(_is_in(name, posixpath.normpath(path)) for name in sent)]


def _is_in(name: str, path: str) -> bool:
    return path in (".", name) or name.startswith(path + "/")


def unpack(archive: Path, into: Path) -> Unpacked:
    """Unpack into an empty directory: files first, links last, so that nothing is written through a link."""
    names: list[str] = []
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=_BoundedStream(stream), mode="r:") as packed:
            members = _bounded(packed)
            names += [each.name for each in members if not each.issym() and _written(packed, each, into)]
            links = [each for each in members if each.issym() and _linked(each, into)]
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, zlib.error) as error:
        raise UsageProblem(f"cannot unpack the results into {into}: {error}") from error
    except RecursionError as error:
        raise UsageProblem(f"cannot unpack the results into {into}: headers in headers, too deep") from error
    # Where a link leads depends on the others, so it is asked once all are there.
    for link in links:
        if _inside(into, link.name):
            names.append(link.name)
        else:
            (into / link.name).unlink()
    kept = set(names)
    return Unpacked(names=tuple(names), left_out=tuple(m.name for m in members if m.name not in kept))


class _BoundedStream(io.RawIOBase):
    """A stream that refuses to read much at once: the tar reader trusts the lengths in headers."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= READ_MOST:
            raise tarfile.TarError(f"a header in it is longer than {READ_MOST >> 20} MiB")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _bounded(packed: tarfile.TarFile) -> list[tarfile.TarInfo]:
    found: list[tarfile.TarInfo] = []
    total = 0
    for member in packed:
        total += member.size + _BLOCK
        if total > TREE_BYTES_MAX:
            raise tarfile.TarError(f"they are more than {TREE_BYTES_MAX >> 20} MiB")
        if len(found) >= MEMBERS_MOST:
            raise tarfile.TarError(f"they are more than {MEMBERS_MOST:,} files; pack them into one")
        found.append(member)
    return found


def _written(packed: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> bool:
    """Write a file or directory; return False for anything else, or outside of the directory."""
    if not _inside(into, member.name):
        return False
    path = into / member.name
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
    with suppress(OverflowError, ValueError, OSError):  # any number may stand there, and none
        os.utime(path, (member.mtime, member.mtime))
    return True


def _linked_hard(into: Path, name: str, path: Path) -> bool:
    if not _inside(into, name) or not (into / name).is_file() or path.exists():
        return False
    path.hardlink_to(into / name)
    return True


def _linked(member: tarfile.TarInfo, into: Path) -> bool:
    """Create a link as it is, in a real directory and not through another link."""
    if not _possible(member.name) or not _possible(member.linkname):
        return False
    path = into / member.name
    if _real(path.parent) != _real(into) / posixpath.dirname(posixpath.normpath(member.name)):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        return False
    path.symlink_to(member.linkname)
    return True


def _inside(into: Path, name: str) -> bool:
    return _possible(name) and _real(into / name).is_relative_to(_real(into))


def _possible(name: str) -> bool:
    """Return whether a name can be a path, nested at most `LEVELS_MOST` deep."""
    return "\0" not in name and name.count("/") < LEVELS_MOST


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, it takes a loop of links


class FetchedResults:
    def __init__(self, client: SyncClient, commands: "Sequence[Command]", results: Path) -> None:
        self.places: list[str] = []
        self.missing: list[dict[str, object]] = []
        try:
            for command in commands:
                self._fetch(client, command, results)
        except OSError as error:
            raise UsageProblem(f"cannot put the results into {results}: {error.strerror or error}") from error
        _name_earlier_ones(results, [str(command.ordinal) for command in commands])
        if self.places and not output.wants_json():
            output.say(f"results are in {results}", file=sys.stderr)

    def _fetch(self, client: SyncClient, command: "Command", results: Path) -> None:
        place = results / str(command.ordinal)
        unpacked = _replaced(client, command, place)
        if isinstance(unpacked, str):
            self._lacks(command, command.collect, f"brought nothing back{unpacked}")
            return
        for name in unpacked.left_out:
            _say(command, f"left out {name}: it leads elsewhere")
        for path in unpacked.missing(command.collect):
            self._lacks(
                command, (path,), f"did not bring back {path}: there is no such path in its workspace"
            )
        if unpacked.names:
            self.places.append(str(place))

    def _lacks(self, command: "Command", paths: Sequence[str], words: str) -> None:
        _say(command, words)
        self.missing.extend({"ordinal": command.ordinal, "path": path} for path in paths)


def _replaced(client: SyncClient, command: "Command", place: Path) -> Unpacked | str:
    """Unpack beside the target, then swap, so that results of an earlier run never pass for new ones."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".muster-get-") as scratch:
        fresh = Path(scratch) / "fresh"
        unpacked = _brought(client, command, Path(scratch) / "results.tgz", fresh)
        if place.is_symlink() or place.exists():
            place.rename(Path(scratch) / "earlier")
        if fresh.exists():
            fresh.rename(place)
    with suppress(OSError):  # only if nothing is in it
        place.parent.rmdir()
    return unpacked


def _brought(client: SyncClient, command: "Command", archive: Path, fresh: Path) -> Unpacked | str:
    """Download and unpack; if nothing came, return the reason as the end of a sentence."""
    try:
        client.download(command.id, archive)
    except NotFound:
        return ""
    except ServerProblem as refused:
        if refused.code != "not_kept":
            raise
        return f": {refused}"
    return unpack(archive, fresh)


def _name_earlier_ones(results: Path, fetched: Sequence[str]) -> None:
    for place in sorted(results.iterdir()) if results.exists() else ():
        if place.name.isdecimal() and place.name not in fetched:
            output.print_notice("results", f"{place} is not of this run")


def _say(command: "Command", words: str) -> None:
    output.print_notice("results", f"[{command.ordinal}] {words}")
