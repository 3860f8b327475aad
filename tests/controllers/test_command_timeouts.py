from muster.domain.command import Command, CommandState, Execution, exit_status
from muster.domain.reasons import Reason
from tests.stage import Manner, Replica, Stage, staged

TIMEOUT = 60.0
LOOKS = 15.0
"""Three looks of the duty."""


async def busy(stage: Stage) -> tuple[Replica, Command]:
    await stage.template(max_runtime=30_000.0)
    stage.agents.usual = Manner(works=None)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    execution = Execution(argv=("sleep",), timeout=TIMEOUT)
    (command,) = await replica.ask(replica.plane.command_desk.execute(operation.id, execution))
    await stage.pass_time(1.0)
    return replica, command


@staged
async def test_a_command_on_a_silent_node_ends_at_its_own_timeout(stage: Stage) -> None:
    _, command = await busy(stage)
    stage.agents.of(command.node_id).silence()
    began = (await stage.store.commands.command(command.id)).started_at
    assert began is not None
    await stage.pass_time(began + TIMEOUT - stage.now - 1.0)
    assert (await stage.store.commands.command(command.id)).state is CommandState.RUNNING
    await stage.pass_time(LOOKS)
    lost = await stage.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, Reason.DEADLINE_EXCEEDED)
    assert lost.detail == "timed out after 60 s; its node does not answer, so its end is not confirmed"
    assert exit_status(lost) == 124


@staged
async def test_a_node_that_answers_tells_itself_how_an_overdue_command_ended(stage: Stage) -> None:
    _, command = await busy(stage)
    await stage.pass_time(TIMEOUT + LOOKS)
    assert (await stage.store.commands.command(command.id)).state is CommandState.RUNNING
    await stage.enrolment.commands.state(
        command.node_id, command.id, CommandState.EXITED, None, 9, timed_out=True
    )
    assert (await stage.store.commands.command(command.id)).reason is Reason.DEADLINE_EXCEEDED
