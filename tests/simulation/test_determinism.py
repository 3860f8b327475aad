"""The same seed gives the same trace: in another process, under another hash seed, whatever ran before it in
this one or runs beside it."""

import gc
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from muster.controllers.deadlines import DeadlineSweep
from muster.enrolment.signals import Enrolment
from muster_simulation.simulate import simulate
from muster_simulation.summary import Result
from tests.simulation import BUSY, defects

pytestmark = pytest.mark.timeout(BUSY)
CODE = """
import json, sys
from muster_simulation.simulate import simulate
result = simulate(seed=int(sys.argv[1]), faults=sys.argv[2], hours=0.3, replicas=2)
print(json.dumps([result.trace, result.events, result.operations, result.injected]))
"""


def trace_in_another_process(seed: int, faults: str, hash_seed: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(seed), faults],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("seed", "faults"), [(4, "heavy"), (11, "heavy"), (3, "jobs")])
def test_the_same_seed_gives_the_same_trace_in_another_process(seed: int, faults: str) -> None:
    first = trace_in_another_process(seed, faults, "1")
    assert first == trace_in_another_process(seed, faults, "4242")
    here = simulate(seed=seed, faults=faults, hours=0.3, replicas=2)
    assert [here.trace, here.events, here.operations, here.injected] == first


def test_another_seed_gives_another_trace() -> None:
    traces = {simulate(seed=seed, faults="light", hours=0.1, replicas=1).trace for seed in range(3)}
    assert len(traces) == 3


# --- what else goes on in this process ----------------------------------------------------------------------


def small() -> Result:
    return simulate(seed=7, faults="heavy", hours=0.03, replicas=2)


class TimeIsUp(BaseException):
    """As a test's own time-out, which strikes anywhere."""


async def time_is_up(*_: Any, **__: Any) -> None:
    raise TimeIsUp


def test_collecting_garbage_at_any_moment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = small()
    seldom = gc.get_threshold()
    monkeypatch.setattr(gc, "disable", lambda: None)
    gc.set_threshold(20, 2, 2)
    try:
        assert small() == calm
    finally:
        gc.set_threshold(*seldom)


def test_a_defect_that_was_planted_before_leaves_nothing_behind() -> None:
    """These are in words that the store remembers, or in a table of the domain."""
    before = small()
    with pytest.MonkeyPatch.context() as patch:
        defects.a_takeover_keeps_the_epoch(patch)
        defects.the_dead_can_be_claimed(patch)
        defects.starting_takes_a_ready_node_back(patch)
        defects.the_living_stay_offline(patch)
        defects.the_rescued_go_back_to_their_operation(patch)
        assert small() != before
    assert small() == before


def test_what_another_thread_logs_is_no_bug_of_this_world(monkeypatch: pytest.MonkeyPatch) -> None:
    def complain() -> None:
        logging.getLogger("muster.elsewhere").error("it failed", exc_info=ValueError("not here"))

    calm, sweep = small(), DeadlineSweep.reconcile

    async def reconcile(self: DeadlineSweep) -> None:
        beside = threading.Thread(target=complain)
        beside.start()
        beside.join()
        await sweep(self)

    monkeypatch.setattr(DeadlineSweep, "reconcile", reconcile)
    assert calm.ok and small() == calm


@pytest.mark.parametrize(("part", "verb"), [(Enrolment, "join"), (DeadlineSweep, "reconcile")])
def test_a_signal_to_end_the_program_is_heard_and_breaks_no_promise(
    part: type, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, verb, time_is_up)
    with pytest.raises((TimeIsUp, BaseExceptionGroup)):
        small()


def test_loggers_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, sweep = logging.getLogger("muster.elsewhere"), DeadlineSweep.reconcile

    async def reconcile(self: DeadlineSweep) -> None:
        assert not logger.isEnabledFor(logging.WARNING)
        await sweep(self)

    monkeypatch.setattr(DeadlineSweep, "reconcile", reconcile)
    assert small().ok and logger.isEnabledFor(logging.WARNING)
