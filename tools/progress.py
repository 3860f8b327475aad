"""Long steps of a set-up, told while they run: nothing is silent for longer than a few seconds.

`python -m tools.progress WORDS COMMAND...` runs one from a Makefile.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

EVERY = 8.0


def run(words: str, command: Sequence[str], *, cwd: Path | None = None, quiet: bool = False) -> int:
    """Run a command to its exit code; say what it is for, and every few seconds that it goes on.

    `quiet`: what it writes is shown only if it fails.
    """
    print(words, flush=True)
    began, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY):
            print(f"{words}: {time.monotonic() - began:.0f} s so far", flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        done = subprocess.run(  # noqa: S603 — a command line of our own
            command, cwd=cwd, check=False, capture_output=quiet, text=True
        )
    finally:
        ended.set()
        teller.join()
    if quiet and done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
