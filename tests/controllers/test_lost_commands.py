import re
from dataclasses import replace

from muster.controllers.commands import LostCommands
from muster.domain.command import Command, CommandState, Execution, exit_status
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import ADVICE, Reason
from muster.operations.operator_desk import OperatorDesk
from tests.stage import Manner, Replica, Stage, staged

ENDLESS = Manner(works=None)
HANGS = Manner(works=None, detach=None)
PATIENCE = 15.0
"""Three looks of the duty."""


async def busy(stage: Stage, manner: Manner = ENDLESS, count: int = 1) -> tuple[Replica, list[Command]]:
    await stage.template()
    stage.agents.usual = manner
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(count))
    made = await replica.ask(replica.plane.command_desk.execute(operation.id, Execution(argv=("sleep",))))
    await stage.pass_time(1.0)
    return replica, list(made)


@staged
async def test_the_command_of_a_condemned_node_is_lost_and_others_are_not(stage: Stage) -> None:
    replica, (doomed, spared) = await busy(stage, count=2)
    await replica.ask(replica.plane.operator.terminate(doomed.node_id))
    await stage.pass_time(PATIENCE)
    after = await stage.store.commands.command(doomed.id)
    assert after.state is CommandState.LOST
    assert after.detail == (
        "its node was terminated before the command ended (operator);"
        " `muster events` names the operator who did it"
    )
    assert after.reason is Reason.OPERATOR
    assert (await stage.store.commands.command(spared.id)).state is CommandState.RUNNING


@staged
async def test_the_command_of_a_node_that_is_given_back_can_still_tell_its_end(stage: Stage) -> None:
    replica, (command,) = await busy(stage, HANGS)
    await replica.release(command.operation_id)
    await stage.count(1, NodeState.RELEASING)
    await stage.pass_time(PATIENCE)
    assert (await stage.store.commands.command(command.id)).state is CommandState.RUNNING
    await stage.enrolment.commands.state(command.node_id, command.id, CommandState.EXITED, 3)
    assert (await stage.store.commands.command(command.id)).exit_code == 3


@staged
async def test_a_command_that_its_node_never_mentioned_again_is_lost_once_the_node_is_pooled(
    stage: Stage,
) -> None:
    replica, (command,) = await busy(stage, Manner(works=None))
    (agent,) = stage.agents.by_machine.values()
    agent._busy.clear()  # it forgot what it was doing
    await stage.succeeded(await replica.release(command.operation_id))
    assert (await stage.node(command.node_id)).state is NodeState.IDLE
    await stage.pass_time(PATIENCE)
    lost = await stage.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, None)
    assert lost.detail == "its node was released before the command ended"


@staged
async def test_the_command_of_a_node_that_passed_its_max_runtime_says_so(stage: Stage) -> None:
    await stage.template(max_runtime=40.0)
    stage.agents.usual = ENDLESS
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    execution = Execution(argv=("sleep",))
    (command,) = await replica.ask(replica.plane.command_desk.execute(operation.id, execution))
    await stage.pass_time(40.0 + PATIENCE)
    lost = await stage.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, Reason.MAX_RUNTIME)
    assert re.match(r"the run passed its max_runtime: \d+ s in running", lost.detail)
    assert lost.detail.endswith(ADVICE[Reason.MAX_RUNTIME])
    assert exit_status(lost) == 124


@staged
async def test_a_command_that_ended_meanwhile_keeps_its_end(stage: Stage) -> None:
    replica, (first, second) = await busy(stage, count=2)
    replica.life.kill()
    for command in (first, second):
        await OperatorDesk(stage.ports).terminate(command.node_id)
    ports = stage.ports

    class Late:
        """The node's last word comes between the look and the write."""

        def __getattr__(self, verb: str) -> object:
            return getattr(ports.commands, verb)

        async def unserved(self, *, limit: int) -> object:
            found = await ports.commands.unserved(limit=limit)
            await stage.enrolment.commands.state(first.node_id, first.id, CommandState.EXITED, 5)
            return found

    await LostCommands(replace(ports, commands=Late())).reconcile()  # type: ignore[arg-type]
    kept, lost = [await stage.store.commands.command(each.id) for each in (first, second)]
    assert (kept.state, kept.exit_code) == (CommandState.EXITED, 5)
    assert lost.state is CommandState.LOST, "one that was lost to another is not in the way of the rest"


@staged
async def test_losing_a_command_wakes_its_run(stage: Stage) -> None:
    await stage.template()
    stage.agents.usual = ENDLESS
    replica = await stage.replica()
    run = await replica.run(1)

    async def running() -> bool:
        return any(command.state is CommandState.RUNNING for command in await stage.commands())

    await stage.until(running)
    (command,) = await stage.commands()
    await replica.ask(replica.plane.operator.terminate(command.node_id))
    ended = await stage.ended(run, within=PATIENCE)
    assert ended.result == "exit 125"
