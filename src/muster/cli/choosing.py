"""Choose which files of a tree are sent: those that git tracks, or all.

Untracked files may be secrets. If git can't list the tracked files of a repository, nothing is chosen; only
`--all-files` chooses without git.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.cli.exits import UsageProblem

WAY_OUT = "or send every file with --all-files"
_WITHIN = 60.0
_SUBMODULE = b"160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    names: tuple[str, ...]
    """Relative to the root, sorted."""
    submodules: tuple[str, ...] = ()
    """Repositories of their own, whose files are not among the names."""
    tracked: bool = False
    """Whether git chose."""


def chosen(root: Path, *, all_files: bool) -> Choice:
    asked = None if all_files else _asked(root)
    if asked is None:
        return Choice(names=tuple(sorted(_walked(root))))
    listed = _listed(asked)
    return Choice(
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
    """What git says. None: this is no repository."""
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
    """Each name once, with whether it is a submodule; in a merge, git says it up to three times."""
    found = {}
    for line in said.split(b"\0"):
        about, _, name = line.partition(b"\t")
        if name:
            found[os.fsdecode(name)] = about.startswith(_SUBMODULE)
    return found
