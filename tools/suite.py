"""`python -m tools.suite ARGS…`: run pytest, and run the few tests that failed beside others again, alone.

Six workers share two cores with servers, browsers and emulated machines. A test that fails there and passes
alone has met a race: its own, or one of Muster's. It does not fail the run. The last lines name it, so that
developers look into it. More than FEW failures are no race, and get no second turn.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FEW = 3
FAILED = 1
"""pytest's word for tests that failed; every other exit code is about the run itself."""
_LAST_FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")


def main(argv: Sequence[str]) -> int:
    code = _pytest("--cache-clear", *argv)
    failed = _failed() if code == FAILED else []
    if not 0 < len(failed) <= FEW:
        return code
    print(f"\n{len(failed)} failed beside others; running them again, alone", flush=True)
    code = _pytest("-n", "0", "--last-failed", "--last-failed-no-failures", "none")
    if code == 0:
        print("passed alone, but failed beside others (look into these, docs/testing.md):")
        print("\n".join(f"  {name}" for name in failed), flush=True)
    return code


def _pytest(*argv: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *argv], check=False).returncode  # noqa: S603


def _failed() -> list[str]:
    try:
        return sorted(json.loads(_LAST_FAILED.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
