import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context

import pytest

from muster_simulation.life import Life, current_life, outside
from muster_simulation.loop import Deadlock, run


def time() -> float:
    return asyncio.get_running_loop().time()


async def program(trace: list[str]) -> None:
    """One await after another, each inside something that wants to clean up."""
    try:
        trace.append("1")
        await asyncio.sleep(1)
        trace.append("2")
        async with asyncio.timeout(100):
            await asyncio.sleep(1)
            trace.append("3")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(1))
            await asyncio.sleep(0.5)
            trace.append("4")
        trace.append("5")
        await asyncio.wait_for(asyncio.sleep(1), 100)
        trace.append("6")
    except asyncio.CancelledError:
        trace.append("cancelled")
        raise
    finally:
        trace.append("finally")
        await asyncio.sleep(0.1)
        trace.append("cleaned up")


WHOLE = ["1", "2", "3", "4", "5", "6", "finally", "cleaned up"]


@pytest.mark.parametrize(
    ("moment", "steps"), [(0.0, 0), (0.5, 1), (1.5, 2), (2.1, 3), (2.7, 4), (3.5, 5), (4.05, 7), (5.0, 8)]
)
def test_a_killed_life_runs_no_finally_block(moment: float, steps: int) -> None:
    trace: list[str] = []

    async def main() -> None:
        life = Life("replica")
        task = life.spawn(program(trace))
        if moment:
            await asyncio.sleep(moment)
        life.kill()
        await asyncio.sleep(10)
        task.cancel()
        gc.collect()
        await asyncio.sleep(10)
        assert task.done() is (steps == len(WHOLE))

    run(main())
    gc.collect()
    assert trace == WHOLE[:steps]


def test_callbacks_and_timers_die_with_the_life_that_set_them() -> None:
    trace: list[str] = []

    async def replica(signal: asyncio.Future[None]) -> None:
        asyncio.get_running_loop().call_later(5, trace.append, "timer")
        signal.add_done_callback(lambda _: trace.append("callback"))
        await asyncio.sleep(100)

    async def main() -> None:
        life, signal = Life("replica"), asyncio.get_running_loop().create_future()
        _ = life.spawn(replica(signal))
        await asyncio.sleep(1)
        life.kill()
        signal.set_result(None)
        await asyncio.sleep(10)

    run(main())
    assert trace == []


def test_a_task_group_in_a_killed_life_stops_as_a_whole() -> None:
    trace: list[str] = []

    async def child(n: int) -> None:
        try:
            await asyncio.sleep(n)
            raise ValueError(n)
        finally:
            trace.append(f"child {n}")

    async def parent() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for n in range(2, 6):
                    tasks.create_task(child(n))
        finally:
            trace.append("parent")

    async def main() -> None:
        life = Life("replica")
        _ = life.spawn(parent())
        await asyncio.sleep(1)
        life.kill()
        await asyncio.sleep(10)

    run(main())
    assert trace == []


def test_a_failure_on_the_eve_of_a_kill_is_not_reported_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    async def child() -> None:
        await asyncio.sleep(1)
        life = current_life()
        assert life is not None
        life.kill()
        raise ValueError("no one hears this")

    async def parent() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child())

    async def main() -> None:
        _ = Life("replica").spawn(parent())
        await asyncio.sleep(2)

    run(main())
    gc.collect()
    assert caplog.records == []


def test_tasks_inherit_the_life_of_the_code_that_starts_them() -> None:
    async def name() -> str:
        life = current_life()
        return life.name if life else "world"

    async def nested() -> list[str]:
        async with asyncio.TaskGroup() as tasks:
            child = tasks.create_task(name())
        in_other = Life("other").spawn(name())
        in_world = outside(asyncio.create_task, name())
        return [await name(), child.result(), await in_other, await in_world]

    async def main() -> list[str]:
        return [await name(), *await Life("replica").spawn(nested())]

    assert run(main()) == ["world", "replica", "replica", "other", "world"]


def test_what_is_started_outside_outlives_its_caller() -> None:
    trace: list[str] = []

    async def verb() -> None:
        await asyncio.sleep(1)
        trace.append("committed")

    async def replica() -> None:
        await outside(asyncio.create_task, verb())
        trace.append("got the reply")

    async def main() -> None:
        life = Life("replica")
        task = life.spawn(replica())
        await asyncio.sleep(0.5)
        life.kill()
        task.cancel()  # and a cancel doesn't reach through the dead to the world
        await asyncio.sleep(5)

    run(main())
    assert trace == ["committed"]


def test_a_life_that_dies_by_its_own_hand_stops_on_the_spot() -> None:
    trace: list[str] = []

    async def replica(life: Life) -> None:
        await life.die()
        trace.append("after death")

    async def main() -> None:
        life, other = Life("replica"), Life("other")
        _ = life.spawn(replica(life))
        await other.die()  # of another caller: this returns
        await asyncio.sleep(1)
        assert not life.alive
        assert not other.alive

    run(main())
    assert trace == []


def test_the_dead_spawn_nothing() -> None:
    async def main() -> None:
        life = Life("replica")
        life.kill()
        with pytest.raises(RuntimeError, match="cannot spawn in replica"):
            _ = life.spawn(asyncio.sleep(1))

    run(main())


def test_the_world_waits_for_a_dead_task_without_an_answer() -> None:
    async def main() -> tuple[int, int]:
        life = Life("replica")
        task = life.spawn(asyncio.sleep(1))
        life.kill()
        done, pending = await asyncio.wait({task}, timeout=60)
        return len(done), len(pending)

    assert run(main()) == (0, 1)


def test_a_deadlock_report_leaves_out_the_dead() -> None:
    async def main() -> None:
        life = Life("replica")
        task = life.spawn(asyncio.sleep(1), name="of the dead")
        life.kill()
        await task

    with pytest.raises(Deadlock, match="without the dead: 1") as caught:
        run(main())
    assert "of the dead" not in str(caught.value)


def test_a_life_needs_a_virtual_loop() -> None:
    async def main() -> None:
        sleep = asyncio.sleep(0)
        with pytest.raises(TypeError, match="needs a VirtualLoop"):
            _ = Life("replica").spawn(sleep)
        await sleep

    asyncio.run(main())


# --- pauses ------------------------------------------------------------------------------------------------


def test_a_paused_life_wakes_at_the_end_and_not_before() -> None:
    async def replica() -> list[float]:
        times = []
        for _ in range(3):
            await asyncio.sleep(1)
            times.append(time())
        return times

    async def main() -> list[float]:
        life = Life("replica")
        task = life.spawn(replica())
        await asyncio.sleep(1.5)
        life.pause(until=10)
        assert life.paused
        life.pause(until=5)  # ends no pause early
        times = await task
        assert "alive" in repr(life)
        return times

    assert run(main()) == [1.0, 10.0, 11.0]


def test_a_longer_pause_extends_the_first() -> None:
    async def main() -> float:
        life = Life("replica")
        task = life.spawn(asyncio.sleep(1))
        life.pause(until=5)
        life.pause(until=20)
        await task
        return time()

    # It had not even started: the sleep of one second begins on waking.
    assert run(main()) == 21.0


def test_a_life_that_pauses_itself_is_woken_by_the_world() -> None:
    async def replica() -> float:
        life = current_life()
        assert life is not None
        life.pause(until=10)
        await asyncio.sleep(0)
        return time()

    async def main() -> float:
        return await Life("replica").spawn(replica())

    assert run(main()) == 10.0


def test_a_pause_longer_than_a_timeout_ends_in_the_timeout() -> None:
    async def replica() -> tuple[str, float]:
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(5)
        except TimeoutError:
            return "timed out", time()
        return "in time", time()

    async def main(until: float) -> tuple[str, float]:
        life = Life("replica")
        task = life.spawn(replica())
        await asyncio.sleep(1)
        life.pause(until)
        return await task

    assert run(main(until=8)) == ("in time", 8.0)
    # As in a process that was really stopped: both timers are due on waking, and the timeout's comes before
    # the task's next step.
    assert run(main(until=100)) == ("timed out", 100.0)


def test_what_arrives_during_a_pause_is_delivered_in_order_of_arrival() -> None:
    trace: list[str] = []

    async def listen(name: str, message: asyncio.Future[str]) -> None:
        try:
            trace.append(f"{name} got {await message} at {time()}")
        except OSError as error:
            trace.append(f"{name} got {error} at {time()}")

    async def main() -> None:
        loop, life = asyncio.get_running_loop(), Life("replica")
        first, second, third = (loop.create_future() for _ in range(3))
        for name, message in (("a", first), ("b", second), ("c", third)):
            _ = life.spawn(listen(name, message))
        await asyncio.sleep(1)
        life.pause(until=10)
        third.set_result("a reply")
        await asyncio.sleep(1)
        first.set_exception(OSError("a reset"))
        second.set_result("another reply")
        await asyncio.sleep(5)
        assert trace == []
        await asyncio.sleep(5)

    run(main())
    assert trace == ["c got a reply at 10.0", "a got a reset at 10.0", "b got another reply at 10.0"]


def test_a_cancel_during_a_pause_is_felt_on_waking() -> None:
    trace: list[str] = []

    async def replica() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            trace.append(f"finally at {time()}")

    async def main() -> None:
        life = Life("replica")
        task = life.spawn(replica())
        await asyncio.sleep(1)
        life.pause(until=10)
        task.cancel()
        await asyncio.sleep(5)
        assert not task.done()
        await asyncio.wait({task})
        assert task.cancelled()

    run(main())
    assert trace == ["finally at 10.0"]


def test_a_life_killed_in_its_pause_never_wakes() -> None:
    trace: list[str] = []

    async def main() -> None:
        life = Life("replica")
        _ = life.spawn(program(trace))
        await asyncio.sleep(0.5)
        life.pause(until=10)
        await asyncio.sleep(5)
        life.kill()
        assert not life.paused
        life.pause(until=20)
        assert not life.paused
        await asyncio.sleep(100)

    run(main())
    assert trace == ["1"]


def test_queues_and_events_work_inside_a_life() -> None:
    async def replica() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        full = asyncio.Event()

        async def produce() -> None:
            for n in range(5):
                await queue.put(n)
                await asyncio.sleep(1)
            full.set()

        producer = asyncio.create_task(produce())
        got = [await asyncio.wait_for(queue.get(), 100) for _ in range(5)]
        await full.wait()
        await producer
        return got

    async def main() -> list[int]:
        life = Life("replica")
        task = life.spawn(replica())
        await asyncio.sleep(2.5)
        life.pause(until=30)
        return await task

    assert run(main()) == [0, 1, 2, 3, 4]


# --- after the end -----------------------------------------------------------------------------------------


@asynccontextmanager
async def lease(trace: list[str]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.sleep(1)
        trace.append("released")


async def tenacious(trace: list[str]) -> None:
    while True:
        try:
            async with lease(trace), asyncio.TaskGroup() as tasks:
                tasks.create_task(program(trace))
                await asyncio.get_running_loop().create_future()
        except BaseException:  # noqa: S110
            pass


def test_the_dead_are_freed_without_a_word(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    trace: list[str] = []
    lives = []

    async def main() -> None:
        def doom(moment: float) -> None:
            life = Life(f"replica {moment}")
            task = life.spawn(tenacious(trace))
            lives.append(weakref.ref(life))
            asyncio.get_running_loop().call_at(moment, life.kill)
            asyncio.get_running_loop().call_at(moment + 1, task.cancel)

        for moment in (0.0, 0.5, 1.5, 2.5):
            doom(moment)
        await asyncio.sleep(10)
        gc.collect()
        assert all(life() for life in lives)

    run(main())
    gc.collect()
    assert set(trace) <= set(WHOLE[:5])
    assert [life() for life in lives] == [None] * 4
    assert [str(warning.message) for warning in recwarn] == []
    assert unraisable == []
    assert caplog.records == []


KEPT: list[object] = []


def growth(runs: int, *, keeps: bool) -> int:
    """Blocks of memory that so many runs leave behind. Not bytes: the interpreter's table of names doubles
    now and then, to one block of a megabyte or more."""

    async def main() -> None:
        life, other = Life("replica"), Life("other")
        task = life.spawn(tenacious([]))
        _ = other.spawn(tenacious([]))
        await asyncio.sleep(1.5)
        life.kill()
        other.pause(until=100)
        await asyncio.sleep(1)
        if keeps:
            KEPT.append(task)

    def blocks_after(count: int) -> int:
        for _ in range(count):
            run(main())
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks_after(100)
    return blocks_after(runs) - before


@pytest.mark.parametrize("keeps", [False, True], ids=["nothing kept", "a task kept is noticed"])
def test_thousands_of_runs_leave_nothing_behind(*, keeps: bool) -> None:
    """In a process of its own: threads and caches of other tests grow, too."""
    runs = 100 if keeps else 2_000
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        assert (apart.submit(growth, runs, keeps=keeps).result() > runs / 2) is keeps
