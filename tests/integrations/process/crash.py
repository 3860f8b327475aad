"""A server that is killed while it launches: `crash.py ROOT URL TOKEN COUNT STEPS` dies after STEPS steps."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from muster.integrations.process.provider import ProcessProvider
from muster.integrations.process.sandbox import Isolation
from muster.testing.provider_contract import INSTALLATION, asking
from tests.integrations.process.lab import PYTHON, STAND_IN


def main() -> None:
    root, url, token, count, steps = sys.argv[1:6]
    left = int(steps)

    def count_down(step: str) -> None:
        nonlocal left
        print(step, flush=True)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    provider = ProcessProvider(
        Path(root),
        installation_id=INSTALLATION,
        servers=[url],
        capacity=10,
        isolation=Isolation.NONE,
        grace=20.0,
        agent=(PYTHON, "-I", "-S", STAND_IN, "plain"),
        cgroups=False,
        on_step=count_down,
    )
    answer = asyncio.run(provider.launch(asking(token, int(count))))
    print(*(machine.id for machine in answer.machines))


if __name__ == "__main__":
    main()
