import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.agent.agent import wipe
from muster.domain.reasons import Reason
from muster.slots.pruner import Keeping, prune
from muster.testing.provider_contract import PATIENCE, asking, ids, listed, until_gone
from tests.integrations.process.lab import Lab


class Clock:
    def __init__(self) -> None:
        self.at = time.time()

    def __call__(self) -> float:
        return self.at


async def test_what_a_gone_machine_leaves_goes_in_order_files_words_token(lab: Lab) -> None:
    clock = Clock()
    provider = lab.provider(now=clock, keeping=Keeping(seconds=60.0, tokens=3600.0))
    answer = await provider.launch(asking("t1", 2))
    await lab.desk.met(2)
    slots = [lab.slot(machine_id) for machine_id in ids(answer)]
    for slot in slots:
        (slot.work / "deep" / "down").mkdir(parents=True)
        (slot.work / "link").symlink_to("/etc")
    await provider.terminate(ids(answer)[:1])
    await until_gone(provider, ids(answer)[:1])
    await listed(provider)
    assert not slots[0].work.exists() and slots[1].work.exists()
    assert "stand-in: ready" in (await provider.console(ids(answer)[0], lines=10) or "")

    clock.at += 61.0
    await listed(provider)
    assert slots[0].path.exists(), "while another machine of its launch lives, its slot stays"

    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    clock.at += 61.0
    await listed(provider)
    assert not any(slot.path.exists() for slot in slots)
    assert list(await provider.find("t1")) == []
    again = await provider.launch(asking("t1", 2))
    assert again.machines == () and again.reason is Reason.PARTIAL_LAUNCH, "the token is still spent"

    clock.at += 3600.0
    await listed(provider)
    assert list(lab.tree.directories()) == []


async def test_only_the_latest_launches_words_are_kept(lab: Lab) -> None:
    clock = Clock()
    provider = lab.provider(now=clock, keeping=Keeping(launches=1))
    for token in ("t1", "t2"):
        answer = await provider.launch(asking(token))
        await provider.terminate(ids(answer))
        await until_gone(provider, ids(answer))
        clock.at += 1.0
    await listed(provider)
    assert not (lab.tree.directory("t1") / "0").exists()
    assert (lab.tree.directory("t2") / "0").exists()


async def test_only_so_many_spent_tokens_are_remembered_the_latest(lab: Lab) -> None:
    clock = Clock()
    keeping = Keeping(seconds=10.0, launches=0, tokens_most=2)
    provider = lab.provider(now=clock, keeping=keeping)
    tokens = ("t1", "t2", "t3", "t4")
    for token in tokens:
        answer = await provider.launch(asking(token))
        await provider.terminate(ids(answer))
        await until_gone(provider, ids(answer))
        clock.at += 1.0
    for _ in range(2):
        await listed(provider)
    assert all(lab.tree.directory(token).exists() for token in tokens), "a repeat may still come"
    clock.at += 10.0
    await listed(provider)
    assert [lab.tree.directory(token).exists() for token in tokens] == [False, False, True, True]


async def test_a_launch_that_never_started_anything_is_forgotten_in_the_end(lab: Lab) -> None:
    clock = Clock()
    provider = lab.provider(now=clock, python="/no/such/python")
    await provider.launch(asking("t1", 2))
    clock.at += 30 * 86400.0
    await listed(provider)
    await listed(provider)
    assert list(lab.tree.directories()) == []


async def test_the_console_is_the_tail_of_what_was_said_and_bounded(lab: Lab) -> None:
    provider = lab.provider("flood", console_limit=50_000)
    answer = await provider.launch(asking("t1"))
    await lab.desk.met(1)
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    slot = lab.slot(ids(answer)[0])
    sizes = [path.stat().st_size for path in (slot.console, slot.console.with_name("console.1.log"))]
    assert sum(sizes) <= 2 * (50_000 + 65_536)
    last = (await provider.console(ids(answer)[0], lines=3) or "").splitlines()
    assert last[0].startswith("flood 39999")
    assert last[1] == "stand-in: ready" and "as asked for" in last[2]
    assert await provider.console(ids(answer)[0], lines=0) is None


async def test_there_is_no_console_of_a_machine_that_never_was(lab: Lab) -> None:
    for unknown in ("nothing", "../..", f"l-{'0' * 24}.0"):
        assert await lab.provider().console(unknown, lines=10) is None


@contextmanager
def _nested(path: Path, levels: int) -> Iterator[None]:
    """Directories in each other, deeper than a stack and longer than any path may be. They are gone at the
    end, whatever happened: pytest can't remove them."""
    at = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("nested", dir_fd=at)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        below = os.open("nested", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        yield
    finally:
        wipe(str(path))


async def test_a_tree_deeper_than_any_stack_is_removed_and_hides_no_other_machine(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1", 2))
    await lab.desk.met(2)
    deep, other = (lab.slot(machine_id) for machine_id in ids(answer))
    with _nested(deep.work, sys.getrecursionlimit() + 100):
        await provider.terminate([deep.machine_id])
        await until_gone(provider, [deep.machine_id])
        async with asyncio.timeout(PATIENCE):
            while deep.work.exists():
                assert [machine.id for machine in await listed(provider)] == [other.machine_id]


async def test_a_tree_that_cannot_be_removed_in_time_keeps_nothing_else(lab: Lab) -> None:
    provider = lab.provider(now=Clock())
    answer = await provider.launch(asking("t1", 2))
    await lab.desk.met(2)
    await provider.terminate(ids(answer))
    first, second = (lab.slot(machine_id) for machine_id in ids(answer))
    with _nested(first.work, 100):
        await until_gone(provider, ids(answer))
        prune(lab.tree, Keeping(), wipe, now=time.time(), within=0.0)
        assert first.work.exists() and second.work.exists()
        await listed(provider)
        assert not first.work.exists() and not second.work.exists()
