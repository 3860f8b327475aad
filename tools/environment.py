"""Install what requirements.lock names: `python -m tools.environment`, with the Python of .venv.

The program uv installs several times faster than pip. So pip first gets uv, by its hash in the same lock. The
settings of pip are passed on, because uv doesn't read them. Where uv fails, pip does the work: slower, with
all its settings.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.progress import run

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
PIP = (sys.executable, "-m", "pip")
INSTALL = (*PIP, "install", "--quiet", "--disable-pip-version-check")
UV = Path(sys.executable).with_name("uv")
PASSED_ON = {"index-url": "--index-url", "extra-index-url": "--extra-index-url", "find-links": "--find-links"}


def main() -> int:
    failed = _with_uv() and run(
        "Installing what requirements.lock names, with pip",
        [*INSTALL, "--require-hashes", "--requirement", str(LOCK)],
    )
    editable = [*INSTALL, "--no-build-isolation", "--no-deps", "--editable", str(ROOT)]
    return failed or run("Installing Muster itself", editable)


def _with_uv() -> int:
    with tempfile.TemporaryDirectory() as directory:
        alone = Path(directory) / "uv.lock"
        alone.write_text(block(LOCK.read_text(encoding="utf-8"), "uv"), encoding="utf-8")
        got = run("Getting uv", [*INSTALL, "--require-hashes", "--requirement", str(alone)], quiet=True)
    if got:
        return got
    words = [str(UV), "pip", "install", "--quiet", "--python", sys.executable, "--require-hashes"]
    asked = [*words, *settings(), "--requirement", str(LOCK)]
    return run("Installing what requirements.lock names", asked, quiet=True)


def block(lock: str, name: str) -> str:
    """Return the lines of a lock that pin one package, without comments."""
    found: list[str] = []
    for line in lock.splitlines():
        if line.startswith(f"{name}==") or (found and line.startswith("    --hash")):
            found.append(line)
        elif found:
            break
    return "\n".join(found) + "\n"


def settings() -> list[str]:
    """Return where pip looks for packages, in uv's words."""
    asked = subprocess.run(  # noqa: S603 — a command line of our own
        [*PIP, "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    options: list[str] = []
    for line in asked.splitlines():
        key, _, value = line.partition("=")
        option = PASSED_ON.get(key.rpartition(".")[2])
        if option is not None:
            told = shlex.split(value)
            options += [word for each in " ".join(told).split() for word in (option, each)]
    return [*options, "--index-strategy", "unsafe-best-match"] if options else []


if __name__ == "__main__":
    sys.exit(main())
