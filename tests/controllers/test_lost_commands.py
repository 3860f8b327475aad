import re
from dataclasses import replace

from muster.controllers.commands import LostCommands
from muster.domain.command import Command, CommandState, Execution, exit_status
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import ADVICE, Reason
from muster.operations.operator_desk import OperatorDesk
from tests.harness import Behaviour, Harness, Replica, with_harness

ENDLESS = Behaviour(works=None)
HANGS = Behaviour(works=None, detach=None)
PATIENCE = 15.0
"""Three looks of the duty."""


async def busy(
    harness: Harness, manner: Behaviour = ENDLESS, count: int = 1
) -> tuple[Replica, list[Command]]:
    await harness.template()
    harness.agents.usual = manner
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(count))
    made = await replica.ask(replica.plane.command_desk.execute(operation.id, Execution(argv=("sleep",))))
    await harness.pass_time(1.0)
    return replica, list(made)


@with_harness
async def test_the_command_of_a_condemned_node_is_lost_and_others_are_not(harness: Harness) -> None:
    replica, (doomed, spared) = await busy(harness, count=2)
    await replica.ask(replica.plane.operator.terminate(doomed.node_id))
    await harness.pass_time(PATIENCE)
    after = await harness.store.commands.command(doomed.id)
    assert after.state is CommandState.LOST
    assert after.detail == (
        "its node was terminated before the command ended (operator);"
        " `muster events` names the operator who did it"
    )
    assert after.reason is Reason.OPERATOR
    assert (await harness.store.commands.command(spared.id)).state is CommandState.RUNNING


@with_harness
async def test_the_command_of_a_node_that_is_given_back_can_still_tell_its_end(harness: Harness) -> None:
    replica, (command,) = await busy(harness, HANGS)
    await replica.release(command.operation_id)
    await harness.count(1, NodeState.RELEASING)
    await harness.pass_time(PATIENCE)
    assert (await harness.store.commands.command(command.id)).state is CommandState.RUNNING
    await harness.enrolment.commands.state(command.node_id, command.id, CommandState.EXITED, 3)
    assert (await harness.store.commands.command(command.id)).exit_code == 3


@with_harness
async def test_a_command_that_its_node_never_mentioned_again_is_lost_once_the_node_is_pooled(
    harness: Harness,
) -> None:
    replica, (command,) = await busy(harness, Behaviour(works=None))
    (agent,) = harness.agents.by_machine.values()
    agent._busy.clear()  # it forgot what it was doing
    await harness.succeeded(await replica.release(command.operation_id))
    assert (await harness.node(command.node_id)).state is NodeState.IDLE
    await harness.pass_time(PATIENCE)
    lost = await harness.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, None)
    assert lost.detail == "its node was released before the command ended"


@with_harness
async def test_the_command_of_a_node_that_passed_its_max_runtime_says_so(harness: Harness) -> None:
    await harness.template(max_runtime=40.0)
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    execution = Execution(argv=("sleep",))
    (command,) = await replica.ask(replica.plane.command_desk.execute(operation.id, execution))
    await harness.pass_time(40.0 + PATIENCE)
    lost = await harness.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, Reason.MAX_RUNTIME)
    assert re.match(r"the run passed its max_runtime: \d+ s in running", lost.detail)
    assert lost.detail.endswith(ADVICE[Reason.MAX_RUNTIME])
    assert exit_status(lost) == 124


@with_harness
async def test_a_command_that_ended_meanwhile_keeps_its_end(harness: Harness) -> None:
    replica, (first, second) = await busy(harness, count=2)
    replica.life.kill()
    for command in (first, second):
        await OperatorDesk(harness.ports).terminate(command.node_id)
    ports = harness.ports

    class Late:
        """The node's last word comes between the look and the write."""

        def __getattr__(self, verb: str) -> object:
            return getattr(ports.commands, verb)

        async def unserved(self, *, limit: int) -> object:
            found = await ports.commands.unserved(limit=limit)
            await harness.enrolment.commands.state(first.node_id, first.id, CommandState.EXITED, 5)
            return found

    await LostCommands(replace(ports, commands=Late())).reconcile()  # type: ignore[arg-type]
    kept, lost = [await harness.store.commands.command(each.id) for each in (first, second)]
    assert (kept.state, kept.exit_code) == (CommandState.EXITED, 5)
    assert lost.state is CommandState.LOST, "one that was lost to another is not in the way of the rest"


@with_harness
async def test_losing_a_command_wakes_its_run(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    run = await replica.run(1)

    async def running() -> bool:
        return any(command.state is CommandState.RUNNING for command in await harness.commands())

    await harness.until(running)
    (command,) = await harness.commands()
    await replica.ask(replica.plane.operator.terminate(command.node_id))
    ended = await harness.ended(run, within=PATIENCE)
    assert ended.result == "exit 125"
