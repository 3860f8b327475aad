"""Build the page: `python -m tools.web install|build|test` installs its tools, builds it, or tests it.

Types come first. They are generated from the API's own document, which needs no running server.

`--if-possible` is for targets that work without the page. Without a Node.js, it prints one line that says
what is missing, and succeeds.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.web.node import Node, NoNode, of_pypi, of_this_machine

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
MODULES = WEB / "node_modules"
STAMP = MODULES / ".muster-lock"
GENERATED = WEB / "generated"
DOCUMENT = GENERATED / "openapi.json"
TYPES = (
    "node_modules/openapi-typescript/bin/cli.js",
    str(DOCUMENT),
    f"--output={GENERATED / 'schema.ts'}",
    "--enum-values",
    "--default-non-nullable=false",
)
BUILD = (("node_modules/vite/bin/vite.js", "build", "--logLevel=warn"), ("scripts/budget.mjs",))
FORMATTED = ("node_modules/prettier/bin/prettier.cjs", "--check", "--log-level=warn", ".")
TEST = (FORMATTED, ("node_modules/typescript-7/bin/tsc",), ("node_modules/vitest/vitest.mjs", "run"))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools.web")
    parser.add_argument("what", choices=("install", "build", "test"))
    parser.add_argument("--if-possible", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        node = _ready()
    except NoNode as error:
        if asked.if_possible:
            print(f"note: {error}; what needs the page is left out", file=sys.stderr)
            return 0
        print(f"error: {error}", file=sys.stderr)
        return 1
    if asked.what == "install":
        STAMP.touch()  # make goes by its time
        return 0
    if _documented() and (failed := node.run(*TYPES, cwd=WEB)):
        DOCUMENT.unlink()
        return failed
    for command in BUILD if asked.what == "build" else TEST:
        failed = node.run(*command, cwd=WEB)
        if failed:
            return failed
    return 0


def _documented() -> bool:
    """Write the API's document. False: it is there already, as it should be."""
    asked = [sys.executable, "-m", "tools.openapi"]
    written = subprocess.run(asked, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    if DOCUMENT.is_file() and DOCUMENT.read_bytes() == written:
        return False
    GENERATED.mkdir(exist_ok=True)
    DOCUMENT.write_bytes(written)
    return True


def _ready() -> Node:
    """Return a Node.js, with what `web/package-lock.json` names installed. Raises NoNode."""
    lock = (WEB / "package-lock.json").read_bytes()
    found = of_this_machine()
    if STAMP.is_file() and STAMP.read_bytes() == lock:
        return found or of_pypi(WEB / "node.lock", ROOT / ".venv" / "node")
    STAMP.unlink(missing_ok=True)
    # An old npm may fail where a newer one doesn't: the one from PyPI is tried then.
    if found is None or found.install(cwd=WEB) != 0:
        found = of_pypi(WEB / "node.lock", ROOT / ".venv" / "node")
        if found.install(cwd=WEB) != 0:
            raise NoNode("cannot build the page: npm cannot install what web/package-lock.json names")
    STAMP.write_bytes(lock)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
