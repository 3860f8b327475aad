"""Pack a tree as a gzipped tar archive: bounded, and the same bytes for the same tree.

The same bytes are the same request under an idempotency key, and the server stores them once.
"""

import gzip
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from muster.cli.choosing import WAY_OUT, Choice, chosen
from muster.cli.exits import UsageProblem
from muster.domain.command import ARCHIVE_BYTES_MAX, TREE_BYTES_MAX

FILES_MOST = 100_000
_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    files: int
    left_out: tuple[str, ...]
    """Links that lead out of the tree: a node would refuse them."""
    submodules: tuple[str, ...]


def pack(directory: Path, into: IO[bytes], *, all_files: bool = False) -> Packed:
    """The git-tracked files of a directory as they are now; without git, or if so asked, all but .git."""
    root = _directory(directory)
    choice = chosen(root, all_files=all_files)
    files, size = 0, 0
    left_out: list[str] = []
    with _archive(into) as archive:
        for name in choice.names:
            path = root / name
            if path.is_symlink() and not _inside(root, path):
                left_out.append(name)
            elif path.is_symlink() or path.is_file():
                files, size = files + 1, size + path.lstat().st_size + _BLOCK
                _check(root, files, size)
                _add(archive, path, name)
    _check_packed(root, files, into.tell(), choice)
    return Packed(files=files, left_out=tuple(left_out), submodules=choice.submodules)


def _inside(root: Path, path: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)  # unlike Path.resolve, it takes a loop of links


def _directory(directory: Path) -> Path:
    if not directory.is_dir():
        raise UsageProblem(f"cannot send {directory}: it is not a directory")
    return directory.resolve()


@contextmanager
def _archive(into: IO[bytes]) -> Iterator[tarfile.TarFile]:
    # Neither the time nor the file's name: they would make another archive of the same tree.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=into, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        yield archive


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    try:
        member = archive.gettarinfo(path, name)
        # Whose files these are here means nothing there.
        member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
        member.mtime = int(member.mtime)
        if member.issym():
            archive.addfile(member)
            return
        with path.open("rb") as file:
            # A second name of the same file: a file of its own for the node, which takes no hard links.
            member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
            archive.addfile(member, file)
    except OSError as error:
        raise UsageProblem(f"cannot send {path}: {error.strerror or error}") from error


def _check(root: Path, files: int, size: int) -> None:
    if files > FILES_MOST or size > TREE_BYTES_MAX:
        raise UsageProblem(
            f"cannot send {root}: it has more than {FILES_MOST} files or {TREE_BYTES_MAX >> 20} MiB; "
            "send a smaller directory"
        )


def _check_packed(root: Path, files: int, size: int, choice: Choice) -> None:
    if not files and choice.tracked:
        raise UsageProblem(f"cannot send {root}: none of its files is tracked by git; add them, {WAY_OUT}")
    if not files:
        raise UsageProblem(f"cannot send {root}: there are no files in it")
    if size > ARCHIVE_BYTES_MAX:
        raise UsageProblem(
            f"cannot send {root}: compressed it has {size >> 20} MiB, and a server takes "
            f"{ARCHIVE_BYTES_MAX >> 20}; send a smaller directory"
        )
