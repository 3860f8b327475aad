"""Copy files to a node and from it, inside the rights of its run.

Sending: the archive is unpacked into a directory of its own in the workspace, and moved from there by a
command of the run. Fetching: a command gathers what is asked for, and the archive is unpacked beside its
target. So each end writes with the rights that it has anyway, and no archive writes through a link.
"""

import os
import posixpath
import secrets
import stat
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from muster.cli import downloads, uploads
from muster.cli.connection import calls
from muster.cli.exits import UsageProblem
from muster.domain.command import TREE_BYTES_MAX, Execution
from muster.domain.errors import NotFound

_EVERY = 0.2
_MIB = 1 << 20


class TransferProgress:
    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._next = time.monotonic() + 1.0  # what is quick needs no word
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, size: int) -> None:
        self._done += size
        if time.monotonic() < self._next or not sys.stderr.isatty():
            return
        self._next, self._shown = time.monotonic() + _EVERY, True
        of = f" of {self._total / _MIB:.1f}" if self._total else ""
        sys.stderr.write(f"\r\x1b[K{self._what} {self._done / _MIB:.1f}{of} MiB")
        sys.stderr.flush()


if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.client import SyncClient
    from muster.wire.commands import Command

_STAGE = ".muster-cp-"
_PUT = """
stage=$1 name=$2 target=$3
trap 'rm -rf "$stage"' EXIT
case $target in "") target=. ;; -*) target=./$target ;; esac
if [ -d "$target" ]; then target=${target%/}/$name; fi
if [ -d "$stage/$name" ] && [ -d "$target" ]; then
  cp -Rp "$stage/$name/." "$target/"
elif [ -d "$target" ]; then
  echo "$target is a directory" >&2; exit 1
else
  mv -f "$stage/$name" "$target"
fi
"""
_TAKE = """
stage=$1 path=$2
case $path in -*) path=./$path ;; esac
[ -e "$path" ] || [ -L "$path" ] || { echo "there is no such path" >&2; exit 1; }
size=$(du -sk "$path") && size=${size%%[!0-9]*}
if [ "$size" -gt "$3" ]; then
  echo "it has $((size / 1024)) MiB, and at most $(($3 / 1024)) are copied" >&2; exit 1
fi
mkdir -m 700 "$stage"
cp -Rp "$path" "$stage/" || { rm -rf "$stage"; exit 1; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A path on a node, and how the API names the node."""

    path: str
    target: "Mapping[str, object]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    node_id: str
    to: str
    files: int
    bytes: int
    left_out: tuple[str, ...] = field(default=())


def send(client: "SyncClient", source: Path, remote: Remote) -> Copied:
    """Copy a file or a directory to a node."""
    stage = _STAGE + secrets.token_hex(8)
    root = source.resolve()
    name = source.name if source.name not in ("", "..") else root.name
    if not root.exists() or not name:
        raise UsageProblem(f"cannot copy {source}: there is no such file or directory")
    with tempfile.TemporaryFile(prefix="muster-cp-") as file:
        files, left_out = _pack(root, f"{stage}/{name}", file)
        with TransferProgress("sending", file.tell()) as progress:
            blob = client.upload(file, tell=progress.advance)
    argv = ("/bin/sh", "-euc", _PUT, "sh", stage, name, remote.path)
    done, _ = _execute(
        client, remote, Execution(argv=argv, archive=blob.id), f"cannot copy to {remote.path or '.'}"
    )
    return Copied(
        node_id=done.node_id, to=remote.path or ".", files=files, bytes=blob.size, left_out=left_out
    )


def fetch(client: "SyncClient", remote: Remote, target: Path, *, force: bool) -> Copied:
    """Copy a file or a directory from a node."""
    name = posixpath.basename(posixpath.normpath(remote.path or "."))
    place = target / name if target.is_dir() else target
    if name in (".", "..", "/"):
        raise UsageProblem(f"cannot copy {remote.path or '.'}: name a file or a directory in it")
    _check_place(place, force=force)
    stage = _STAGE + secrets.token_hex(8)
    limit = str(TREE_BYTES_MAX // 1024)
    argv = ("/bin/sh", "-euc", _TAKE, "sh", stage, remote.path, limit)
    what = f"cannot copy {remote.path}"
    done, said = _execute(client, remote, Execution(argv=argv, collect=(stage,)), what)
    try:
        return _unpacked(client, done, place, f"{stage}/{name}")
    except NotFound as error:
        raise UsageProblem(f"{what} on {done.node_id}: {said or 'it brought nothing back'}") from error
    finally:
        _execute(client, remote, Execution(argv=("rm", "-rf", stage)), "cannot clean up on the node")


def _execute(client: "SyncClient", remote: Remote, execution: Execution, what: str) -> "tuple[Command, str]":
    """Run on the node. Return how it ended and its last line of output. Raises UsageProblem with it."""
    (made,) = client.send(calls.execute(execution, **remote.target))  # type: ignore[arg-type]
    lines = b"".join(client.follow(made.id)).decode(errors="replace").strip().splitlines()
    said, done = lines[-1] if lines else "", client.send(calls.command(made.id))
    if done.exit_status != 0:
        told = said or done.detail or f"exit code {done.exit_status}"
        raise UsageProblem(f"{what} on {made.node_id}: {told}")
    return done, said


def _unpacked(client: "SyncClient", done: "Command", place: Path, inner: str) -> Copied:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".muster-cp-") as scratch:
            archive, fresh = Path(scratch) / "copy.tgz", Path(scratch) / "fresh"
            with TransferProgress("fetching") as progress:
                size = client.download(done.id, archive, tell=progress.advance)
            found = downloads.unpack(archive, fresh)
            if not os.path.lexists(fresh / inner):
                raise UsageProblem(
                    f"cannot copy {inner.partition('/')[2]}: it leads elsewhere, or is no file"
                )
            files = sum(1 for name in found.names if _is_file(fresh / name))
            _replace(fresh / inner, place, Path(scratch) / "earlier")
    except OSError as error:
        raise UsageProblem(f"cannot copy to {place}: {error.strerror or error}") from error
    return Copied(
        node_id=done.node_id, to=str(place), files=files, bytes=size, left_out=_shown(found.left_out)
    )


def _is_file(path: Path) -> bool:
    """Return whether it counts as a file, as a link does."""
    return path.is_symlink() or not path.is_dir()


def _shown(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.partition("/")[2] or name for name in names)


def _check_place(place: Path, *, force: bool) -> None:
    """Refuse to mix what comes with a directory that is there: it may have links that lead elsewhere."""
    if place.is_dir() and not force:
        raise UsageProblem(f"cannot copy to {place}: the directory exists; replace it with --force")


def _replace(fresh: Path, place: Path, earlier: Path) -> None:
    if os.path.lexists(place) and place.is_dir() and not place.is_symlink():
        place.rename(earlier)
    fresh.replace(place)


def _pack(root: Path, name: str, into: IO[bytes]) -> tuple[int, tuple[str, ...]]:
    """Pack all of a tree under a name. Links that lead out of it are left out, and named."""
    files, size, left_out = 0, 0, []
    with uploads.open_archive(into) as archive:
        for path in (root, *_below(root)):
            inner = name if path == root else f"{name}/{path.relative_to(root)}"
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind) and not uploads.leads_inside(root, path):
                left_out.append(str(path.relative_to(root)))
            elif stat.S_ISDIR(kind):
                uploads.add_directory(archive, path, inner)
            elif stat.S_ISLNK(kind) or stat.S_ISREG(kind):
                files, size = files + 1, size + path.lstat().st_size
                uploads.check_size(root, files, size)
                uploads.add_file(archive, path, inner)
            else:
                left_out.append(str(path.relative_to(root)))
    uploads.check_archive(root, into.tell())
    return files, tuple(left_out)


def _below(root: Path) -> list[Path]:
    if root.is_symlink() or not root.is_dir():
        return []
    found: list[Path] = []
    for directory, inner, names in os.walk(root):
        found += [Path(directory) / name for name in sorted((*inner, *names))]
        uploads.check_size(root, len(found), 0)
    return found
