"""The same seed gives the same trace: in another process, under another hash seed."""

import json
import os
import subprocess
import sys

import pytest

from muster.simulation.simulate import simulate

CODE = """
import json, sys
from muster.simulation.simulate import simulate
result = simulate(seed=int(sys.argv[1]), faults="heavy", hours=0.3, replicas=2)
print(json.dumps([result.trace, result.events, result.operations, result.injected]))
"""


def trace_in_another_process(seed: int, hash_seed: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("seed", [4, 11])
def test_the_same_seed_gives_the_same_trace_in_another_process(seed: int) -> None:
    first = trace_in_another_process(seed, "1")
    assert first == trace_in_another_process(seed, "4242")
    here = simulate(seed=seed, faults="heavy", hours=0.3, replicas=2)
    assert [here.trace, here.events, here.operations, here.injected] == first


def test_another_seed_gives_another_trace() -> None:
    traces = {simulate(seed=seed, faults="light", hours=0.1, replicas=1).trace for seed in range(3)}
    assert len(traces) == 3
