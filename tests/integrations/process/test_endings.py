import asyncio
import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from muster.domain.errors import Uncertain
from muster.ports.provider import MachineState
from muster.slots import tree
from muster.slots.processes import running, start_time
from muster.slots.termination import SLACK
from muster.testing.provider_contract import asking, ids, listed, until_gone
from tests.integrations.process.lab import Lab, ended, recorded, unlocked


async def test_an_agent_that_ends_by_itself_is_a_machine_that_is_gone(lab: Lab) -> None:
    provider = lab.provider("brief")
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    await agent.died()
    await unlocked(lab.slot(answer.machines[0].id))
    known = await provider.describe(ids(answer))
    assert [machine.state for machine in known.values()] == [MachineState.GONE]
    assert await listed(provider) == []
    assert "ended with exit status 3" in (await provider.console(answer.machines[0].id, lines=5) or "")


async def test_a_killed_agent_takes_its_daemons_along(lab: Lab) -> None:
    provider = lab.provider("daemon")
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    os.kill(agent.facts["pid"], signal.SIGKILL)
    await stray.died()
    await until_gone(provider, ids(answer))


async def test_a_tree_with_a_daemon_that_hides_its_origin_dies_on_terminate(lab: Lab) -> None:
    provider = lab.provider("daemon")
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    assert stray.facts["environment"] == {} or "MUSTER_SLOT" not in stray.facts["environment"]
    assert stray.facts["session"] != agent.facts["session"]
    await provider.terminate(ids(answer))
    await stray.died()
    await agent.died()
    await until_gone(provider, ids(answer))


async def test_an_agent_that_ignores_sigterm_is_stopping_until_its_grace_is_over(lab: Lab) -> None:
    provider = lab.provider("deaf", grace=0.3)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    await recorded(lab.slot(answer.machines[0].id))
    before = time.monotonic()
    await provider.terminate(ids(answer))
    known = await provider.describe(ids(answer))
    assert [machine.state for machine in known.values()] == [MachineState.STOPPING]
    assert [machine.state for machine in await listed(provider)] == [MachineState.STOPPING]
    await until_gone(provider, ids(answer))
    assert time.monotonic() - before >= 0.3
    await agent.died()
    await stray.died()


async def test_a_node_whose_end_cannot_be_written_down_is_told_all_the_same(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the one that filled the disk."""
    provider = lab.provider()
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    await recorded(lab.slot(answer.machines[0].id))

    def full(_path: Path, _data: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(tree, "write", full)
        with pytest.raises(Uncertain, match="No space left"):
            await provider.terminate(ids(answer))
        await agent.died()
    await until_gone(provider, ids(answer))


async def test_an_end_asked_for_before_the_keeper_is_up_still_comes(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1", 3))
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    assert not any(agent.alive for agent in lab.desk.of("agent"))


async def test_a_killed_keeper_takes_its_agent_along_and_the_rest_is_swept_up(lab: Lab) -> None:
    provider = lab.provider("marker")
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (marked,) = await lab.desk.met(1, "marked")
    os.kill(await recorded(lab.slot(answer.machines[0].id)), signal.SIGKILL)
    await agent.died()
    await unlocked(lab.slot(answer.machines[0].id))
    assert marked.alive
    await until_gone(provider, ids(answer))
    await marked.died()


async def test_a_stopped_keeper_is_killed_once_it_is_late(lab: Lab) -> None:
    clock = [time.time()]
    provider = lab.provider(now=lambda: clock[0])
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    keeper = await recorded(lab.slot(answer.machines[0].id))
    os.kill(keeper, signal.SIGSTOP)
    await provider.terminate(ids(answer))
    known = await provider.describe(ids(answer))
    assert known[answer.machines[0].id].state is MachineState.STOPPING
    clock[0] += 20.0 + SLACK + 1
    await until_gone(provider, ids(answer))
    await agent.died()


async def test_a_keeper_that_never_wrote_its_record_is_found_by_its_marker(lab: Lab, tmp_path: Path) -> None:
    """As if it hung between its start and its first act: locked, and no pid known."""
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()\n")
    clock = [time.time()]
    provider = lab.provider(keeper=hanging, now=lambda: clock[0])
    answer = await provider.launch(asking("t1"))
    assert ids(await listed(provider)) == ids(answer)
    await provider.terminate(ids(answer))
    assert (await provider.describe(ids(answer)))[answer.machines[0].id].state is MachineState.STOPPING
    clock[0] += 20.0 + SLACK + 1
    await until_gone(provider, ids(answer))


@pytest.mark.parametrize("forged_start", ["right", "wrong"])
async def test_a_pid_that_belongs_to_another_process_by_now_is_never_signalled(
    lab: Lab, forged_start: str
) -> None:
    clock = [time.time()]
    provider = lab.provider(now=lambda: clock[0])
    answer = await provider.launch(asking("t1"))
    await lab.desk.met(1)
    slot = lab.slot(answer.machines[0].id)
    await recorded(slot)
    innocent = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        start = start_time(innocent.pid) if forged_start == "right" else "1"
        (slot.path / "keeper.json").write_text(json.dumps({"pid": innocent.pid, "start_time": start}))
        await provider.terminate(ids(answer))
        clock[0] += 20.0 + SLACK + 1
        await until_gone(provider, ids(answer))
        assert running(innocent.pid)
    finally:
        innocent.kill()
        await innocent.wait()


async def test_after_a_reboot_everything_is_gone_and_nothing_is_signalled(lab: Lab) -> None:
    """Locks are free then, and the records' pids and markers mean nothing."""
    provider = lab.provider()
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    slot = lab.slot(answer.machines[0].id)
    keeper = await recorded(slot)
    record = json.loads((slot.path / "started.json").read_text())
    (slot.path / "started.json").write_text(json.dumps(record | {"boot_id": "an earlier one"}))
    await provider.terminate(ids(answer))
    assert running(keeper) and agent.alive
    (slot.path / "started.json").write_text(json.dumps(record))
    await until_gone(provider, ids(answer))


def is_child(pid: int) -> bool:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


async def test_keepers_leave_no_zombies_in_the_server(lab: Lab) -> None:
    provider = lab.provider("zombies")
    answer = await provider.launch(asking("t1", 2))
    await lab.desk.met(2)
    keepers = [await recorded(lab.slot(machine_id)) for machine_id in ids(answer)]
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    for keeper in keepers:
        await ended(keeper)
    await provider.find("t1")
    for keeper in keepers:
        assert not is_child(keeper)


async def test_ending_one_node_leaves_the_others_alone(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1", 3))
    agents = await lab.desk.met(3)
    await provider.terminate(ids(answer)[:1])
    await until_gone(provider, ids(answer)[:1])
    survivors = [agent for agent in agents if agent.facts["proof"].split(":")[1] != ids(answer)[0]]
    assert all(running(agent.facts["pid"]) for agent in survivors)
    assert ids(await listed(provider)) == ids(answer)[1:]


async def test_another_installations_machines_are_not_terminated(lab: Lab) -> None:
    answer = await lab.provider().launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    await lab.provider(installation_id="inst-2").terminate(ids(answer))
    assert (await lab.provider().describe(ids(answer)))[ids(answer)[0]].state is MachineState.RUNNING
    assert running(agent.facts["pid"])
