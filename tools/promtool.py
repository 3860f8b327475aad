"""`python -m tools.promtool`: get Prometheus's checker of rules, if it is missing. Never a reason to fail."""

import os
import shutil
import sys
from pathlib import Path

from tools.engines.getting import unpack

UNPACKED = Path(__file__).parents[1] / ".venv" / "prometheus"
HINT = "promtool is missing: run `make promtool` as root on Debian, or install prometheus"


def path() -> str | None:
    return shutil.which("promtool", path=f"{UNPACKED / 'usr' / 'bin'}:{os.environ.get('PATH', os.defpath)}")


def main() -> int:
    if path() is None:
        if not os.geteuid() and shutil.which("apt-get"):
            unpack(("prometheus",), UNPACKED, "Unpacking promtool for the test of alert rules")
        if path() is None:
            print(f"note: the test of alert rules will skip: {HINT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
