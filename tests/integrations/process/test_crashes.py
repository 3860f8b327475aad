import asyncio
import sys
import time
from pathlib import Path

import pytest

from muster.domain.reasons import Reason
from muster.slots.processes import running
from muster.testing.provider_contract import PATIENCE, asking, ids, listed, until_gone
from tests.integrations.process.lab import Lab, recorded

COUNT = 3
STEPS = ["granted", *["locked", "marked", "spawned"] * COUNT]
ROOT = Path(__file__).parents[3]


async def launch_and_die(lab: Lab, steps: int, token: str = "t1", count: int = COUNT) -> list[str]:
    """What a server did before it was killed after so many steps; 0 lets it live."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integrations.process.crash"),
        *(str(lab.root), lab.desk.url, token, str(count), str(steps)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate()
    assert process.returncode == (-9 if steps else 0)
    return said.decode().splitlines()


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1), ids=lambda n: f"{n}-{STEPS[n - 1]}")
async def test_after_a_crash_at_any_step_exactly_what_exists_is_found_and_a_repeat_starts_the_rest(
    lab: Lab, steps: int
) -> None:
    done = await launch_and_die(lab, steps)
    assert done == STEPS[:steps]
    spawned, marked = done.count("spawned"), done.count("marked")
    provider = lab.provider()

    found = ids(list(await provider.find("t1")))
    assert len(found) == spawned
    assert ids(await listed(provider)) == found
    known = await provider.describe([f"{lab.tree.directory('t1').name}.{n}" for n in range(COUNT)])
    assert len(known) == marked, "what was about to start when the server died counts as started"

    answer = await provider.launch(asking("t1", COUNT))
    lost = marked - spawned
    assert len(answer.machines) == COUNT - lost
    assert set(found) <= set(ids(answer))
    assert answer.reason is (Reason.PARTIAL_LAUNCH if lost else None)
    agents = await lab.desk.met(COUNT - lost)
    assert {agent.facts["proof"].split(":")[1] for agent in agents} == set(ids(answer))
    assert len(lab.desk.callers) == COUNT - lost, "nothing was started twice"

    again = await provider.launch(asking("t1", COUNT))
    assert ids(again) == ids(answer) and again.reason is answer.reason

    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    for agent in agents:
        await agent.died()
    assert await listed(provider) == []


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
async def test_what_a_crashed_launch_never_started_holds_no_room(lab: Lab, steps: int) -> None:
    await launch_and_die(lab, steps, count=3)
    started = STEPS[:steps].count("spawned")
    provider = lab.provider(capacity=3)
    other = await provider.launch(asking("t2", 3))
    assert len(other.machines) == 3 - started
    again = await provider.launch(asking("t1", 3))
    assert len(again.machines) == started
    assert again.reason is (Reason.CAPACITY if steps != 3 else again.reason)
    assert len(await listed(provider)) == 3


async def test_nodes_outlive_the_server_that_started_them(lab: Lab) -> None:
    await launch_and_die(lab, len(STEPS))
    agents = await lab.desk.met(COUNT)
    provider = lab.provider()
    assert len(await provider.find("t1")) == COUNT
    assert all(agent.alive for agent in agents)
    for slot in lab.slots():
        assert running(await recorded(slot))


async def test_an_end_asked_for_by_a_server_that_died_comes_without_it(lab: Lab) -> None:
    """The keeper does it all; and the mark on disk lets the next server go on."""
    await launch_and_die(lab, 0, count=1)
    (agent,) = await lab.desk.met(1)
    (slot,) = lab.slots()
    await recorded(slot)
    slot.ask_for_end(time.time())  # as a server that died right after writing it down
    provider = lab.provider()
    await until_gone(provider, [slot.machine_id])
    await agent.died()


async def test_two_servers_launching_one_token_at_once_make_one_set_of_processes(lab: Lab) -> None:
    elsewhere = asyncio.gather(*(launch_and_die(lab, 0) for _ in range(3)))
    here = await asyncio.gather(*(lab.provider().launch(asking("t1", COUNT)) for _ in range(2)))
    shown = [said[-1].split() for said in await elsewhere] + [ids(answer) for answer in here]
    assert len(shown) == 5 and all(each == shown[0] for each in shown)
    await lab.desk.met(COUNT)
    assert len(await listed(lab.provider())) == COUNT
    assert len(lab.desk.callers) == COUNT


async def test_servers_launching_at_once_never_pass_the_capacity(lab: Lab) -> None:
    providers = [lab.provider(capacity=5) for _ in range(4)]
    answers = await asyncio.gather(
        *(provider.launch(asking(f"t{n}", 2)) for n, provider in enumerate(providers)), return_exceptions=True
    )
    made = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert sum(len(answer.machines) for answer in made) == 5
    assert len(await listed(providers[0])) == 5
