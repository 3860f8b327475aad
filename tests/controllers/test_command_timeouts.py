from muster.domain.command import Command, CommandState, Execution, exit_status
from muster.domain.reasons import Reason
from tests.harness import Behaviour, Harness, Replica, with_harness

TIMEOUT = 60.0
LOOKS = 15.0
"""Three looks of the duty."""


async def busy(harness: Harness) -> tuple[Replica, Command]:
    await harness.template(max_runtime=30_000.0)
    harness.agents.usual = Behaviour(works=None)
    replica = await harness.replica()
    operation = await harness.succeeded(await replica.provision(1))
    execution = Execution(argv=("sleep",), timeout=TIMEOUT)
    (command,) = await replica.ask(replica.plane.command_desk.execute(operation.id, execution))
    await harness.pass_time(1.0)
    return replica, command


@with_harness
async def test_a_command_on_a_silent_node_ends_at_its_own_timeout(harness: Harness) -> None:
    _, command = await busy(harness)
    harness.agents.of(command.node_id).silence()
    began = (await harness.store.commands.command(command.id)).started_at
    assert began is not None
    await harness.pass_time(began + TIMEOUT - harness.now - 1.0)
    assert (await harness.store.commands.command(command.id)).state is CommandState.RUNNING
    await harness.pass_time(LOOKS)
    lost = await harness.store.commands.command(command.id)
    assert (lost.state, lost.reason) == (CommandState.LOST, Reason.DEADLINE_EXCEEDED)
    assert lost.detail == "timed out after 60 s; its node does not answer, so its end is not confirmed"
    assert exit_status(lost) == 124


@with_harness
async def test_a_node_that_answers_tells_itself_how_an_overdue_command_ended(harness: Harness) -> None:
    _, command = await busy(harness)
    await harness.pass_time(TIMEOUT + LOOKS)
    assert (await harness.store.commands.command(command.id)).state is CommandState.RUNNING
    await harness.enrolment.commands.state(
        command.node_id, command.id, CommandState.EXITED, None, 9, timed_out=True
    )
    assert (await harness.store.commands.command(command.id)).reason is Reason.DEADLINE_EXCEEDED
