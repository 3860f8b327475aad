import asyncio
import concurrent.futures
import gc
import hashlib
import itertools
import logging
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from muster_simulation.loop import Deadlock, Livelock, OutOfTime, VirtualClock, VirtualLoop, run


async def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_year_of_sleep_takes_a_year_of_virtual_time() -> None:
    async def main() -> float:
        await asyncio.sleep(365 * 86_400)
        return await now()

    assert run(main(), start=10.0) == 10.0 + 365 * 86_400


def test_timers_of_equal_time_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for n in range(1_000):
            loop.call_at(5.0, fired.append, n)
            loop.call_at(4.0 + n / 10_000, lambda: None)
        await asyncio.sleep(6)
        return fired

    assert run(main()) == list(range(1_000))


def test_a_timer_that_is_due_at_once_overtakes_a_task_that_spins() -> None:
    async def main() -> bool:
        done: list[bool] = []
        asyncio.get_running_loop().call_later(0, done.append, True)
        while not done:  # noqa: ASYNC110 - spinning is the point
            await asyncio.sleep(0)
        return done[0]

    assert run(main())


def test_cancelled_timers_neither_fire_nor_fill_the_heap() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(50_000):
            async with asyncio.timeout(3_600):
                await asyncio.sleep(0)
        size = len(loop._timers)
        await asyncio.sleep(7_200)
        return size

    assert run(main()) < 5_000


def test_timers_cancelled_in_the_instant_they_are_due_are_not_counted_twice() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(100):
            loop.call_later(1, lambda: None)  # keeps the cancelled one off the top of the heap
            timer = loop.call_later(1, lambda: None)
            loop.call_later(0.5, timer.cancel)
            await asyncio.sleep(2)
        return loop._cancelled_timers

    assert run(main()) == 0


def test_waiting_for_nothing_is_a_deadlock_that_names_the_tasks_and_the_lines() -> None:
    async def forgotten() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the forgotten one")

    with pytest.raises(
        Deadlock, match=r"(?s)at 0\.0 s nothing is ready.*the forgotten one.*test_loop\.py:\d+"
    ):
        run(main())


def test_a_sleep_without_end_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        run(asyncio.sleep(math.inf))


def test_a_program_that_spins_without_letting_time_pass_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - spinning is the point
            await asyncio.sleep(0)

    monkeypatch.setattr(VirtualLoop, "turns_per_instant", 1_000)
    with pytest.raises(Livelock, match="main"):
        run(main())


def test_zero_delay_timers_that_set_themselves_again_are_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        def again() -> None:
            asyncio.get_running_loop().call_later(0, again)

        again()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(VirtualLoop, "turns_per_instant", 1_000)
    with pytest.raises(Livelock):
        run(main())


def test_the_limit_counts_from_the_start_and_ends_the_run() -> None:
    assert run(asyncio.sleep(10, "in time"), start=100, limit=10) == "in time"
    with pytest.raises(OutOfTime, match=r"limit of 110\.0 s"):
        run(asyncio.sleep(10.5), start=100.0, limit=10)


def test_an_error_of_the_program_reaches_the_caller() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run(main())


def test_an_error_in_a_callback_is_reported_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> str:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(1)
        return "done"

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        assert run(main()) == "done"
    assert "Exception in callback" in caplog.text


def test_threads_are_refused_and_inline_executors_are_not() -> None:
    class Inline(concurrent.futures.Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_result(fn(*args, **kwargs))
            return future

    async def main() -> int:
        with pytest.raises(RuntimeError, match="cannot use threads"):
            await asyncio.to_thread(len, "abc")
        return await asyncio.get_running_loop().run_in_executor(Inline(), len, "abc")

    assert run(main()) == 3


def test_the_clock_is_the_epoch_plus_the_time_of_the_loop() -> None:
    async def main() -> tuple[float, float]:
        clock = VirtualClock(epoch=1_000.0)
        await clock.sleep(2.5)
        await clock.sleep(-1)
        return clock.now(), VirtualClock().now()

    assert run(main()) == (1_002.5, 1_800_000_002.5)


# --- determinism -------------------------------------------------------------------------------------------


async def busy(trace: list[str]) -> None:
    """Whatever could depend on addresses: sets of tasks that are cancelled, waited for, left over."""

    async def worker(name: str, pause: float) -> None:
        try:
            for step in itertools.count():
                await asyncio.sleep(pause)
                trace.append(f"{name} step {step}")
        finally:
            trace.append(f"{name} out")

    async def fails() -> None:
        await asyncio.sleep(3)
        raise ValueError("stop")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for n in range(50):
                tasks.create_task(worker(f"worker {n}", 1 + n % 3))
                # Garbage of varying size moves the addresses of the tasks to come.
                trace.append(str(len([object() for _ in range(id(tasks) // 64 % 97)]) >= 0))
            tasks.create_task(fails())

    await asyncio.gather(group(), return_exceptions=True)
    sleepers = [asyncio.create_task(asyncio.sleep(n % 2, n)) for n in range(50)]
    done, pending = await asyncio.wait(sleepers, timeout=0.5)
    trace.extend(f"{task.get_name()} {task.done()}" for task in (*done, *pending))
    trace.append(repr(await now()))


def digest() -> str:
    trace: list[str] = []
    run(busy(trace))
    return hashlib.sha256("\n".join(trace).encode()).hexdigest()


def test_the_same_program_leaves_the_same_trace_twice() -> None:
    ballast = []
    digests = set()
    for n in range(5):
        digests.add(digest())
        ballast.append([object() for _ in range(n * 1_001)])
    assert len(digests) == 1


@pytest.mark.parametrize("seed", ["1", "4711"])
def test_another_process_with_another_hash_seed_leaves_the_same_trace(seed: str) -> None:
    code = "from tests.simulation.test_loop import digest; print(digest())"
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == digest()


def test_a_task_without_a_reference_is_not_collected() -> None:
    async def lonely(trace: list[str]) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            trace.append("collected")

    async def main() -> list[str]:
        trace: list[str] = []
        _ = asyncio.create_task(lonely(trace))
        del _
        await asyncio.sleep(1)
        gc.collect()
        return list(trace)

    assert run(main()) == []


# --- the quiet end -----------------------------------------------------------------------------------------


@contextmanager
def section(trace: list[str]) -> Iterator[None]:
    try:
        yield
    finally:
        trace.append("left the section")


@asynccontextmanager
async def async_section(trace: list[str]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.sleep(1)
        trace.append("left the async section")


async def numbers(trace: list[str]) -> AsyncIterator[int]:
    try:
        for n in itertools.count():
            await asyncio.sleep(1)
            yield n
    finally:
        await asyncio.sleep(1)
        trace.append("no more numbers")


async def stubborn(trace: list[str]) -> None:
    never_awaited = asyncio.sleep(1)
    try:
        with section(trace):
            async with async_section(trace), asyncio.timeout(1_000_000):
                async for n in numbers(trace):
                    trace.append(str(n))  # noqa: PERF401 - suspended inside a loop, not a comprehension
    finally:
        await never_awaited
        trace.append("finally")


def test_tasks_left_over_at_the_end_run_no_code_and_warn_about_nothing(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    trace: list[str] = []

    async def main() -> None:
        tasks = [asyncio.create_task(stubborn(trace)) for _ in range(3)]
        asyncio.get_running_loop().call_soon(tasks.append, asyncio.create_task(stubborn(trace)))
        await asyncio.sleep(2.5)
        tasks.append(asyncio.create_task(stubborn(trace)))  # never even starts

    run(main())
    gc.collect()
    assert trace == ["0", "0", "0", "0", "1", "1", "1", "1"]
    assert [str(warning.message) for warning in recwarn] == []
    assert unraisable == []
    assert caplog.records == []


def test_the_loop_is_closed_when_the_program_deadlocks_in_the_middle() -> None:
    trace: list[str] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            trace.append("finally")

    with pytest.raises(Deadlock):
        run(main())
    gc.collect()
    assert trace == []
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
