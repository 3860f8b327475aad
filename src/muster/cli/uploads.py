"""Send a tree of files to the server: choose the files, pack them, upload the archive.

Git chooses: untracked files may be secrets. If git can't list the tracked files of a repository, nothing is
sent. Only `--all-files` sends without git. The same tree gives the same bytes: the same request under an
idempotency key, which the server stores once. The size is bounded.
"""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.domain.command import ARCHIVE_BYTES_MAX, TREE_BYTES_MAX
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.client import SyncClient

FILES_MOST = 100_000
_BLOCK = 512


# --- which files -----------------------------------------------------------------

WAY_OUT = "or send every file with --all-files"
_WITHIN = 60.0
_SUBMODULE = b"160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSelection:
    names: tuple[str, ...]
    """Relative to the root, sorted."""
    submodules: tuple[str, ...] = ()
    """Repositories of their own, whose files are not among the names."""
    tracked: bool = False
    """Whether git chose."""


def select_files(root: Path, *, all_files: bool) -> FileSelection:
    asked = None if all_files else _asked(root)
    if asked is None:
        return FileSelection(names=tuple(sorted(_walked(root))))
    listed = _listed(asked)
    return FileSelection(
        names=tuple(sorted(name for name in listed if not listed[name] and os.path.lexists(root / name))),
        submodules=tuple(sorted(name for name in listed if listed[name])),
        tracked=True,
    )


def _walked(root: Path) -> Iterator[str]:
    for directory, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name != ".git"]
        base = Path(directory)
        links = [name for name in inner if (base / name).is_symlink()]
        for name in (*names, *links):
            if name != ".git":  # of a submodule or another work tree it is a file
                yield str((base / name).relative_to(root))


def _asked(root: Path) -> bytes | None:
    """Return what git lists, or None outside of a repository."""
    git = shutil.which("git")
    if git is None:
        if not _is_in_a_repository(root):
            return None
        raise UsageProblem(f"cannot send {root}: it is a git repository, and git is not installed; {WAY_OUT}")
    try:
        done = subprocess.run(  # noqa: S603 — a fixed command line
            [git, "-C", str(root), "ls-files", "-z", "--cached", "--stage"],
            capture_output=True,
            check=False,
            timeout=_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageProblem(f"cannot ask git which files of {root} to send: {error}") from error
    if done.returncode == 0:
        return done.stdout
    if not _is_in_a_repository(root):
        return None
    words = os.fsdecode(done.stderr).strip() or f"it ended with {done.returncode}"
    raise UsageProblem(
        f"cannot send {root}: git does not list its tracked files; repair the repository, {WAY_OUT}\n{words}"
    )


def _is_in_a_repository(root: Path) -> bool:
    return "GIT_DIR" in os.environ or any(os.path.lexists(each / ".git") for each in (root, *root.parents))


def _listed(said: bytes) -> dict[str, bool]:
    """Return each name with whether it is a submodule; git lists a name up to three times in a merge."""
    found = {}
    for line in said.split(b"\0"):
        about, _, name = line.partition(b"\t")
        if name:
            found[os.fsdecode(name)] = about.startswith(_SUBMODULE)
    return found


# --- archive ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    files: int
    left_out: tuple[str, ...]
    """Links that lead out of the tree: a node would refuse them."""
    submodules: tuple[str, ...]


def pack(directory: Path, into: IO[bytes], *, all_files: bool = False) -> Packed:
    """Pack the git-tracked files as they are now; without git, or with `all_files`, all but .git."""
    root = _directory(directory)
    choice = select_files(root, all_files=all_files)
    files, size = 0, 0
    left_out: list[str] = []
    with open_archive(into) as archive:
        for name in choice.names:
            path = root / name
            if path.is_symlink() and not leads_inside(root, path):
                left_out.append(name)
            elif path.is_symlink() or path.is_file():
                files, size = files + 1, size + path.lstat().st_size + _BLOCK
                check_size(root, files, size)
                add_file(archive, path, name)
    _check_packed(root, files, into.tell(), choice)
    return Packed(files=files, left_out=tuple(left_out), submodules=choice.submodules)


def leads_inside(root: Path, path: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)  # unlike Path.resolve, it takes a loop of links


def _directory(directory: Path) -> Path:
    if not directory.is_dir():
        raise UsageProblem(f"cannot send {directory}: it is not a directory")
    return directory.resolve()


@contextmanager
def open_archive(into: IO[bytes]) -> Iterator[tarfile.TarFile]:
    # Neither the time nor the file's name: they would make another archive of the same tree.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=into, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        yield archive


def add_file(archive: tarfile.TarFile, path: Path, name: str) -> None:
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


def add_directory(archive: tarfile.TarFile, path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, path.stat().st_mode & 0o777 | 0o700
    archive.addfile(member)


def check_size(root: Path, files: int, size: int) -> None:
    if files > FILES_MOST or size > TREE_BYTES_MAX:
        raise UsageProblem(
            f"cannot send {root}: it has more than {FILES_MOST} files or {TREE_BYTES_MAX >> 20} MiB; "
            "send a smaller directory"
        )


def _check_packed(root: Path, files: int, size: int, choice: FileSelection) -> None:
    if not files and choice.tracked:
        raise UsageProblem(f"cannot send {root}: none of its files is tracked by git; add them, {WAY_OUT}")
    if not files:
        raise UsageProblem(f"cannot send {root}: there are no files in it")
    check_archive(root, size)


def check_archive(root: Path, size: int) -> None:
    if size > ARCHIVE_BYTES_MAX:
        raise UsageProblem(
            f"cannot send {root}: compressed it has {size >> 20} MiB, and a server takes "
            f"{ARCHIVE_BYTES_MAX >> 20}; send a smaller directory"
        )


_NAMED = 5


def upload_tree(client: "SyncClient", directory: Path, *, all_files: bool) -> str:
    """Pack and send a tree; return the id under which the server keeps it."""
    with tempfile.TemporaryFile(prefix="muster-sync-") as file:
        packed = pack(directory, file, all_files=all_files)
        blob = client.upload(file)
    if not output.wants_json():
        what = f"{counted(packed.files, 'file')}, {blob.size / 1024:.0f} KiB compressed"
        output.say(f"sent {directory} ({what})", file=sys.stderr)
    name_left_out(packed.left_out, "it links to something outside of it")
    name_left_out(packed.submodules, "a submodule; --all-files sends it too")
    return blob.id


def name_left_out(names: Sequence[str], why: str) -> None:
    """Say what was not copied, by the first few names."""
    for name in names[:_NAMED]:
        output.print_notice("not_sent", f"without {name}: {why}")
    if len(names) > _NAMED:
        output.print_notice("not_sent", f"… and {len(names) - _NAMED} more: {why}")
