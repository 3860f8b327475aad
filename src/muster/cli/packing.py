"""Trees to send and results to unpack, as gzipped tar archives: bounded, never outside their directory."""

import os
import posixpath
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from muster.cli.exits import UsageProblem

BYTES_MOST = 512 << 20
"""What a node unpacks at most."""
FILES_MOST = 100_000
_BLOCK = 512
_GIT_WITHIN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    files: int
    size: int
    """Before compression."""
    left_out: tuple[str, ...]
    """Links that lead out of the tree: a node would refuse them."""


def pack(directory: Path, into: IO[bytes]) -> Packed:
    """The git-tracked files of a directory as they are now; without git, all but .git."""
    root = _directory(directory)
    files, size = 0, 0
    left_out: list[str] = []
    with tarfile.open(fileobj=into, mode="w:gz", compresslevel=6) as archive:
        for name in _names(root):
            path = root / name
            if path.is_symlink() and not _inside(root, path):
                left_out.append(name)
                continue
            if not path.is_symlink() and not path.is_file():
                continue
            files, size = files + 1, size + path.lstat().st_size + _BLOCK
            _check(root, files, size)
            archive.add(path, name, recursive=False, filter=_anonymous)
    return Packed(files=files, size=size, left_out=tuple(left_out))


def _directory(directory: Path) -> Path:
    if not directory.is_dir():
        raise UsageProblem(f"cannot send {directory}: it is not a directory")
    return directory.resolve()


def _check(root: Path, files: int, size: int) -> None:
    if files > FILES_MOST or size > BYTES_MOST:
        raise UsageProblem(
            f"cannot send {root}: it has more than {FILES_MOST} files or {BYTES_MOST >> 20} MiB; "
            "send a smaller directory"
        )


def _names(root: Path) -> Iterator[str]:
    tracked = _tracked(root)
    if tracked is not None:
        yield from (name for name in tracked if os.path.lexists(root / name))
        return
    for directory, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name != ".git")
        base = Path(directory)
        links = [name for name in inner if (base / name).is_symlink()]
        for name in sorted([*names, *links]):
            yield str((base / name).relative_to(root))


def _tracked(root: Path) -> list[str] | None:
    """None: there is no git, or this is not a repository of it."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 — a fixed command line
            [git, "-C", str(root), "ls-files", "-z", "--cached"],
            capture_output=True,
            check=False,
            timeout=_GIT_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageProblem(f"cannot ask git which files of {root} to send: {error}") from error
    if done.returncode != 0:
        return None
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return sorted(dict.fromkeys(names))


def _inside(root: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(root)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose files these are here means nothing there."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


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
    """What a node sent, into a directory of its own."""
    names, left_out = [], []
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed.getmembers():
                into.mkdir(parents=True, exist_ok=True)
                try:
                    # Plain files in this directory: no links out, no devices, no special modes.
                    packed.extract(member, into, filter="data")
                    names.append(member.name)
                except tarfile.FilterError:
                    left_out.append(member.name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UsageProblem(f"cannot unpack the results into {into}: {error}") from error
    return Unpacked(names=tuple(names), left_out=tuple(left_out))
