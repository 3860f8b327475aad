"""How long `muster --help` takes, beside an interpreter that does nothing."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import Figure

RUNS = 10


async def measure() -> Sequence[Figure]:
    return await asyncio.to_thread(_measure)


def _measure() -> Sequence[Figure]:
    ours = (str(Path(sys.executable).with_name("muster")), "--help")
    nothing = (sys.executable, "-c", "pass")
    _milliseconds(ours)  # byte code is written once
    took = [(_milliseconds(ours), _milliseconds(nothing)) for _ in range(RUNS)]
    return [
        Figure(
            name="muster --help",
            value=median(our for our, _ in took),
            unit="ms",
            floor=median(bare for _, bare in took),
            limit=250.0,
            lower_is_better=True,
            note=f"median of {RUNS}; floor: python -c pass",
        )
    ]


def _milliseconds(argv: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=30)
    return (time.perf_counter() - started) * 1e3
