"""Processes of a benchmark: a server, an empty one, a generator of load. Each says when it is ready, in one
line of JSON, and is stopped by its pid whatever happens.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stores.watchdog import ended, ends_with_us

READY_WITHIN = 120.0
STOP_WITHIN = 20.0
LINE_MOST = 16 << 20
_TICKS = os.sysconf("SC_CLK_TCK")


class Child:
    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    async def line(self, within: float = READY_WITHIN) -> Any:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        async with asyncio.timeout(within):
            said = await self._process.stdout.readline()
        assert said, f"process {self.pid} ended without a word"
        return json.loads(said)

    async def stop(self) -> None:
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_WITHIN):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def usage(self) -> "Usage":
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        resident = next(line.split()[1] for line in status if line.startswith("VmRSS:"))
        return Usage(cpu=(int(stat[11]) + int(stat[12])) / _TICKS, resident=int(resident) * 1024)


@dataclass(frozen=True, slots=True)
class Usage:
    cpu: float
    """Seconds of a core, since its start."""
    resident: int
    """Bytes."""


@asynccontextmanager
async def child(module: str, given: Mapping[str, Any]) -> AsyncIterator[Child]:
    """Start `python -m module`, with its task in one line of JSON on its standard input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=PIPE, stdout=PIPE, limit=LINE_MOST
    )
    made = Child(process)
    ends_with_us(made.pid)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode() + b"\n")
        await process.stdin.drain()
        process.stdin.close()
        yield made
    finally:
        await made.stop()
        ended(made.pid)


def told() -> Any:
    """Return the task of this child process."""
    return json.loads(sys.stdin.readline())


def say(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
