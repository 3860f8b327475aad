"""A run: provision, execute on every node, give back; through deaths and cancels."""

import re
from collections.abc import Awaitable, Callable

import pytest

from muster.domain.command import CommandState, Execution, exit_status
from muster.domain.errors import InvalidRequest, StoreUnavailable
from muster.domain.lifecycle import NodeState
from muster.domain.node import condemn, release
from muster.domain.operation import Kind, Operation, Status
from muster.domain.reasons import ADVICE, Reason
from muster.domain.template import TemplateSpec
from tests.harness import NEVER_BOOTS, Behaviour, Harness, Replica, with_harness
from tests.harness.harness import run_scenario
from tests.operations.test_crashes import (
    ReplicaFault,
    all_are_awake,
    kill,
    moments,
    stop_beyond_the_lease,
)

PENDING, RUNNING, EXITED, LOST = CommandState
ENDLESS = Behaviour(works=None)


async def under_way(harness: Harness, count: int) -> None:
    """Until so many commands run."""

    async def running() -> bool:
        return sum(command.state is RUNNING for command in await harness.commands()) == count

    await harness.until(running)


async def of_run(harness: Harness, kind: Kind) -> list[Operation]:
    return [each for each in await harness.of_kind(kind) if each.idempotency_key is not None]


# --- well -------------------------------------------------------------------------------------------------


@with_harness
async def test_a_run_provisions_executes_on_every_node_and_gives_back(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(
        Behaviour(works=5.0, exit_code=0),
        Behaviour(works=9.0, exit_code=2),
        Behaviour(works=1.0, exit_code=None, signal=9),
    )
    replica = await harness.replica()

    run = await harness.ended(await replica.run(3, argv=("make", "test")))

    assert (run.kind, run.status, run.result) == (Kind.RUN, Status.FAILED, "exit 137")
    assert run.verdict is not None and run.verdict.reason is Reason.COMMAND_FAILED
    assert "exit 2 on [" in run.verdict.message and "exit 137 on [" in run.verdict.message
    assert run.progress is not None and (run.progress.step, run.progress.percent) == (7, 100.0)
    assert run.progress.message == run.verdict.message
    commands = await harness.commands("run-1")
    assert [(command.ordinal, command.count) for command in commands] == [(0, 3), (1, 3), (2, 3)]
    assert [command.state for command in commands] == [EXITED] * 3
    assert sorted((each.exit_code, each.signal) for each in commands if each.signal is None) == [
        (0, None),
        (2, None),
    ]
    assert {command.execution.argv for command in commands} == {("make", "test")}
    assert len({command.node_id for command in commands}) == 3
    for command in commands:
        output = await harness.store.commands.output(command.id, offset=0, limit=999)
        assert output.decode() == f"{command.id} on {command.node_id}\n"
    assert [len(agent.executed) for agent in harness.agents.by_machine.values()] == [1, 1, 1]
    assert len(await of_run(harness, Kind.PROVISION)) == len(await of_run(harness, Kind.RELEASE)) == 1
    await harness.nothing_is_left(idle=3)


@with_harness
async def test_the_same_key_gives_the_same_run(harness: Harness) -> None:
    await harness.template()
    first, second = await harness.replica(), await harness.replica()
    run = await first.run(2, key="key-1")
    assert (await second.run(2, key="key-1")).id == run.id
    await harness.succeeded(run)
    assert (await first.run(2, key="key-1")).id == run.id
    assert len(await harness.commands()) == 2


@with_harness
async def test_two_runs_of_one_name_do_not_mix(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    one = await replica.run(1, argv=("one",))
    other = await replica.run(2, argv=("other",))
    for run in (one, other):
        await harness.succeeded(run)
    commands = await harness.commands("run-1")
    counts = [(command.execution.argv[0], command.count) for command in commands]
    assert sorted(counts) == [("one", 1), ("other", 2), ("other", 2)]


@with_harness
async def test_steps_and_percent_of_a_run_never_go_back(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    harness.agents.script(Behaviour(boot=30.0, works=40.0, detach=10.0), Behaviour(boot=50.0, works=20.0))
    replica = await harness.replica()

    run = await harness.succeeded(await replica.run(3))

    shown = [
        event.changes["progress"] for event in await harness.events(run.id) if "progress" in event.changes
    ]
    at = [(each["step"], each["percent"]) for each in shown if isinstance(each, dict)]
    assert at == sorted(at)
    assert {step for step, _ in at} >= {3, 5, 6, 7}
    assert at[-1] == (7, 100.0)
    messages = [each["message"] for each in shown if isinstance(each, dict)]
    assert "1 of 3 commands ended" in messages


@with_harness
async def test_why_a_run_waits_is_why_its_provision_does(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = NEVER_BOOTS
    replica = await harness.replica()
    run = await replica.run(2)
    await harness.pass_time(30.0)
    why = await replica.ask(replica.plane.desk.why(run.id))
    assert why.waits_for == "waiting for 2 nodes to boot"
    await replica.cancel(run.id)
    await harness.ended(run)


# --- no nodes ---------------------------------------------------------------------------------------------


@with_harness
async def test_a_run_without_nodes_fails_for_the_reason_of_its_provision(harness: Harness) -> None:
    await harness.template(rescue_window=0.0)
    harness.agents.script(Behaviour(), Behaviour(boot=5.0, fails="exit 1"))
    replica = await harness.replica()

    run = await harness.ended(await replica.run(2))

    (provision,) = await harness.of_kind(Kind.PROVISION)
    assert run.status is Status.FAILED
    assert run.verdict is not None and run.verdict == provision.verdict
    assert run.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    assert await harness.commands() == []
    assert await harness.of_kind(Kind.RELEASE) == []
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_a_run_whose_template_cannot_be_served_any_more_fails_and_says_why(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()

    async def elsewhere() -> None:
        await harness.store.apply_template(TemplateSpec(name="ci", provider="other"), now=harness.now)

    replica.interceptor.before("operation_by_key", elsewhere)
    run = await harness.ended(await replica.run(1), within=60.0)
    assert run.status is Status.FAILED
    assert run.verdict is not None
    assert run.verdict.reason is Reason.PROVIDER_REFUSED
    assert "not configured on this server" in run.verdict.message


# --- stopped ----------------------------------------------------------------------------------------------


@with_harness
async def test_a_run_cancelled_before_anything_was_asked_for_asks_for_nothing(harness: Harness) -> None:
    await harness.template()
    replica, other = await harness.replica(), await harness.replica()

    async def cancel() -> None:
        (run,) = await harness.of_kind(Kind.RUN)
        await other.cancel(run.id)

    replica.interceptor.before("operation", cancel)
    run = await harness.ended(await replica.run(2))
    assert run.status is Status.CANCELLED
    assert await harness.of_kind(Kind.PROVISION) == []


@with_harness
async def test_a_run_cancelled_while_booting_leaves_nothing(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    run = await replica.run(2)
    await harness.pass_time(30.0)

    await replica.cancel(run.id)
    run = await harness.ended(run, within=60.0)

    assert run.status is Status.CANCELLED
    assert run.verdict is not None and run.verdict.reason is Reason.CANCELLED
    (provision,) = await of_run(harness, Kind.PROVISION)
    assert provision.status is Status.CANCELLED
    assert await harness.commands() == []
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_a_cancel_that_loses_against_the_commit_gives_the_nodes_back(harness: Harness) -> None:
    await harness.template()
    await harness.warm(1)
    replica, other = await harness.replica(), await harness.replica()

    async def cancel() -> None:
        (run,) = await harness.of_kind(Kind.RUN)
        (provision,) = await of_run(harness, Kind.PROVISION)
        assert provision.committed and not provision.ended
        await other.cancel(run.id)

    replica.interceptor.in_steps = True
    replica.interceptor.before("apply_all", cancel)
    run = await harness.ended(await replica.run(1))
    assert run.status is Status.CANCELLED
    (provision,) = await of_run(harness, Kind.PROVISION)
    assert provision.status is Status.SUCCEEDED
    assert await harness.commands() == []
    await harness.nothing_is_left(idle=1)


@with_harness
async def test_a_run_cancelled_while_its_commands_run_kills_them_and_gives_back(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(works=1.0), ENDLESS, ENDLESS)
    replica = await harness.replica()
    run = await replica.run(3)
    await under_way(harness, 2)

    await replica.cancel(run.id)
    run = await harness.ended(run, within=60.0)

    assert run.status is Status.CANCELLED
    assert run.result == ""
    exits = sorted((each.exit_code, each.signal) for each in await harness.commands() if each.signal)
    assert exits == [(None, 9), (None, 9)]
    await harness.nothing_is_left(idle=3)


@with_harness
async def test_a_run_that_outlives_its_deadline_ends_and_gives_back(harness: Harness) -> None:
    await harness.template(max_runtime=100.0, provision_timeout=50.0, attach_timeout=20.0)
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    run = await replica.run(1)
    await under_way(harness, 1)
    (node,) = await harness.nodes(NodeState.RUNNING)

    # No controller judges the node, so that only the run's own deadline is left.
    replica.interceptor.deny["nodes_due"] = StoreUnavailable("not now")
    launching = harness.settings.limits.launching
    assert run.deadline_at == run.created_at + (launching + 50.0 + 20.0) + 100.0 + launching
    ended = await harness.ended(run)

    replica.interceptor.deny.clear()
    assert ended.status is Status.FAILED
    assert ended.verdict is not None and ended.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert ended.ended_at is not None and 0 <= ended.ended_at - run.deadline_at < 10.0
    assert (await harness.node(node.id)).state is NodeState.IDLE
    (command,) = await harness.commands()
    assert command.signal == 9


@with_harness
async def test_more_time_for_the_nodes_is_more_time_for_their_run(harness: Harness) -> None:
    await harness.template(max_runtime=100.0)
    harness.agents.usual = Behaviour(works=2000.0)
    replica = await harness.replica()
    run = await replica.run(1)
    await under_way(harness, 1)

    await replica.ask(replica.plane.operator.extend(run.id, 3000.0))
    ended = await harness.ended(run)

    assert (ended.status, ended.result) == (Status.SUCCEEDED, "exit 0")
    assert harness.now > run.deadline_at
    assert ended.deadline_source == "operator"


@with_harness
async def test_a_run_with_a_timeout_is_stopped_then_and_no_extension_passes_it(harness: Harness) -> None:
    await harness.template(max_runtime=1000.0)
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    run = await replica.run(1, timeout=50.0)
    await under_way(harness, 1)
    (provision,) = await of_run(harness, Kind.PROVISION)
    for name in (run.id, provision.id):
        with pytest.raises(InvalidRequest, match="its timeout is hard, and no extension passes it"):
            await replica.ask(replica.plane.operator.extend(name, 3000.0))

    ended = await harness.ended(run)

    assert (run.deadline_at, run.deadline_source) == (run.created_at + 50.0, "request")
    assert ended.status is Status.FAILED and ended.verdict is not None
    assert ended.verdict.reason is Reason.DEADLINE_EXCEEDED
    assert ended.verdict.message == "the run did not end within its timeout of 50 s"
    assert ended.ended_at is not None and 0 <= ended.ended_at - run.deadline_at < 10.0
    await harness.nothing_is_left(idle=1)
    (command,) = await harness.commands()
    assert command.signal == 9


@with_harness
async def test_a_run_whose_commands_pass_its_max_runtime_fails_and_says_so(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(works=1.0), ENDLESS)
    replica = await harness.replica()

    ended = await harness.ended(await replica.run(2, max_runtime=30.0))

    assert ended.status is Status.FAILED and ended.verdict is not None
    assert ended.verdict.reason is Reason.MAX_RUNTIME
    # The deadline is looked at every few seconds: when exactly depends on who else is woken.
    said = r"1 of 2 commands did not end in time: the run passed its max_runtime: 3\d s in running"
    assert re.match(said, ended.verdict.message)
    assert ADVICE[Reason.MAX_RUNTIME] in ended.verdict.message
    commands = await harness.commands()
    assert sorted(exit_status(command) for command in commands) == [0, 124]
    await harness.nothing_is_left()


@with_harness
async def test_the_nodes_of_a_run_take_commands_by_its_name_and_are_given_back_only_by_it(
    harness: Harness,
) -> None:
    await harness.template()
    harness.agents.script(ENDLESS, Behaviour(works=1.0))
    replica = await harness.replica()
    run = await replica.run(1)
    with pytest.raises(InvalidRequest, match="yet: wait for it"):
        await replica.ask(replica.plane.command_desk.execute(run.id, Execution(argv=("true",))))
    await under_way(harness, 1)

    (command,) = await replica.ask(replica.plane.command_desk.execute(run.id, Execution(argv=("true",))))
    with pytest.raises(InvalidRequest, match=f"stop it with `muster operations cancel {run.id}`"):
        await replica.release(run.id)

    (provision,) = await of_run(harness, Kind.PROVISION)
    assert command.operation_id == provision.id
    await replica.cancel(run.id)
    await harness.ended(run)
    (release,) = await of_run(harness, Kind.RELEASE)
    with pytest.raises(InvalidRequest, match="must be a provision or a run, not a release"):
        await replica.ask(replica.plane.operator.extend(release.id, 60.0))


# --- lost -------------------------------------------------------------------------------------------------


@with_harness
async def test_a_node_that_dies_loses_its_command_and_the_run_goes_on_to_its_end(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(Behaviour(works=5.0), ENDLESS, Behaviour(works=2000.0))
    replica = await harness.replica()
    run = await replica.run(3, max_runtime=5000.0)
    await under_way(harness, 2)

    (busy,) = [agent for agent in harness.agents.by_machine.values() if agent.manner is ENDLESS]
    harness.cloud.end(busy.box.id)
    busy.die()
    run = await harness.ended(run)

    assert (run.status, run.result) == (Status.FAILED, "exit 125")
    assert run.verdict is not None and run.verdict.node_id == busy.node_id
    assert (run.verdict.reason, run.verdict.message.split(":")[0]) == (
        Reason.MACHINE_GONE,
        "1 of 3 commands lost",
    )
    states = {command.node_id: command.state for command in await harness.commands()}
    assert busy.node_id is not None
    assert sorted(states.values()) == [EXITED, EXITED, LOST]
    assert states[busy.node_id] is LOST
    await harness.nothing_is_left(idle=2)


@with_harness
async def test_a_run_says_that_a_node_does_not_answer_since_when_and_until_when(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    run = await replica.run(1, max_runtime=5000.0)
    await under_way(harness, 1)
    (busy,) = harness.agents.by_machine.values()
    busy.die()
    limits = harness.settings.limits

    await harness.pass_time(limits.stale_after + 2 * harness.settings.poll_every)

    progress = (await harness.operation(run.id)).progress
    assert progress is not None and progress.phase == "running"
    said = f"0 of 1 command ended; {busy.node_id} has not answered since "
    assert progress.message.startswith(said) and " and will count as lost at " in progress.message
    (silence,) = (await replica.ask(replica.plane.silent_nodes.under(await harness.commands()))).values()
    ended = await harness.ended(run)
    assert ended.verdict is not None and ended.verdict.reason is Reason.HEARTBEAT_LOST
    (command,) = await harness.commands()
    assert command.ended_at is not None
    assert 0 <= command.ended_at - silence.given_up_at <= 20.0  # the duties' own pace


@with_harness
async def test_nodes_that_another_caller_released_end_the_run(harness: Harness) -> None:
    await harness.template()
    harness.agents.usual = ENDLESS
    replica = await harness.replica()
    run = await replica.run(2)
    await under_way(harness, 2)
    (provision,) = await of_run(harness, Kind.PROVISION)

    await replica.release(provision.id)
    run = await harness.ended(run, within=60.0)

    assert (run.status, run.result) == (Status.FAILED, "exit 137")
    await harness.nothing_is_left(idle=2)


@with_harness
async def test_a_node_that_is_gone_before_its_command_fails_the_run_and_the_rest_is_given_back(
    harness: Harness,
) -> None:
    await harness.template()
    harness.agents.usual = ENDLESS
    replica = await harness.replica()

    async def lose_one() -> None:
        (provision,) = await of_run(harness, Kind.PROVISION)
        node = await harness.node(provision.members[1].node_id)
        await harness.store.apply(condemn(node, now=harness.now, reason=Reason.OPERATOR))

    replica.interceptor.before("commands.start", lose_one)
    run = await harness.ended(await replica.run(3), within=60.0)

    assert run.status is Status.FAILED
    assert run.verdict is not None and run.verdict.reason is Reason.MACHINE_GONE
    await harness.nothing_is_left(idle=2)
    assert all(command.ended for command in await harness.commands())


@with_harness
async def test_a_replica_that_finds_a_node_gone_too_late_does_not_judge_the_run(harness: Harness) -> None:
    """It stopped before it started the commands; the run was cancelled by the one that took over."""
    await harness.template()
    replica, other = await harness.replica(), await harness.replica()

    async def stop() -> None:
        (run,) = await harness.of_kind(Kind.RUN)
        await other.cancel(run.id)
        await stop_beyond_the_lease(harness, replica)

    replica.interceptor.before("commands.start", stop)
    run = await harness.ended(await replica.run(2))
    await all_are_awake(replica, harness)

    run = await harness.operation(run.id)
    assert run.status is Status.CANCELLED
    names = [event.name for event in await harness.events(run.id)]
    assert "failing" not in names
    assert names[-1] == "ended"
    await harness.nothing_is_left(idle=2)


@with_harness
async def test_a_replica_that_wakes_up_late_asks_for_no_nodes(harness: Harness) -> None:
    """It stopped before it submitted the provision; the run was cancelled and ended by another one."""
    await harness.template()
    replica, other = await harness.replica(), await harness.replica()
    first = True

    async def stop() -> None:
        nonlocal first
        replica.interceptor.before("submit", stop)
        if first:  # the run itself
            first = False
            return
        replica.interceptor._before.clear()
        (run,) = await harness.of_kind(Kind.RUN)
        await other.cancel(run.id)
        await stop_beyond_the_lease(harness, replica)

    replica.interceptor.before("submit", stop)
    run = await harness.ended(await replica.run(2))
    await all_are_awake(replica, harness)

    assert run.status is Status.CANCELLED
    assert await harness.of_kind(Kind.PROVISION) == []
    await harness.nothing_is_left()


@with_harness
async def test_a_run_that_was_left_alone_for_long_does_not_begin_again(harness: Harness) -> None:
    """Its replica dies before it gives back. The node comes back by itself, and all that is old is pruned."""
    await harness.template()
    await harness.warm(1)
    replica = await harness.replica()
    submissions = 0

    async def die_at_the_release() -> None:
        nonlocal submissions
        submissions += 1
        if submissions == 3:  # run, provision, release
            await replica.life.die()
        replica.interceptor.before("submit", die_at_the_release)

    replica.interceptor.before("submit", die_at_the_release)
    run = await replica.run(1)
    while replica.life.alive:
        await harness.pass_time(1.0)
    (node,) = await harness.nodes(NodeState.RUNNING)
    await harness.store.apply(release(node, now=harness.now, deadline_at=harness.now + 60.0))
    await harness.count(1, NodeState.IDLE)
    await harness.pass_time(100.0)
    await harness.store.prune(before=harness.now, limit=1000)

    await harness.replica()
    assert (await harness.succeeded(run)).result == "exit 0"
    assert len(await of_run(harness, Kind.PROVISION)) == 1
    assert len(await harness.commands()) == 1


# --- crashes ----------------------------------------------------------------------------------------------


async def whole(harness: Harness, first: Replica, second: Replica) -> None:
    run = await harness.ended(await insist(first, second))
    await all_are_awake(first, harness)
    assert (run.status, run.result) == (Status.FAILED, "exit 2"), run.verdict
    await once(harness)
    assert [command.state for command in await harness.commands()] == [EXITED] * 2


async def stopped(harness: Harness, first: Replica, second: Replica) -> None:
    harness.agents.usual = ENDLESS
    harness.agents._manners.clear()
    run = await insist(first, second)
    await under_way(harness, 2)
    await second.cancel(run.id)
    run = await harness.ended(run)
    await all_are_awake(first, harness)
    assert run.status is Status.CANCELLED
    await once(harness)


async def once(harness: Harness) -> None:
    """One provision, one release, each command once."""
    assert len(await of_run(harness, Kind.PROVISION)) == 1
    assert len(await of_run(harness, Kind.RELEASE)) == 1
    assert [command.ordinal for command in await harness.commands()] == [0, 1]
    started = [name for agent in harness.agents.by_machine.values() for name in agent.executed]
    assert sorted(started) == sorted(command.id for command in await harness.commands())
    for operation in await harness.of_kind(Kind.RUN):
        told = await harness.events(operation.id)
        shown = [event.changes["progress"] for event in told if "progress" in event.changes]
        at = [(each["step"], each["percent"]) for each in shown if isinstance(each, dict)]
        assert at == sorted(at)
    await harness.nothing_is_left(idle=2)


async def insist(first: Replica, second: Replica) -> Operation:
    """A caller that got no answer asks again, elsewhere, with the same key."""
    try:
        return await first.run(2, key="key-1")
    except ConnectionError:
        return await second.run(2, key="key-1")


Scenario = Callable[[Harness, Replica, Replica], Awaitable[None]]


async def run_with_fault(harness: Harness, scenario: Scenario, *, at: int, fault: ReplicaFault) -> list[str]:
    await harness.template(rescue_window=0.0)
    harness.agents.script(Behaviour(works=3.0, exit_code=2), Behaviour(boot=2.0, works=5.0))
    first, second = await harness.replica(), await harness.replica()
    first.interceptor.run_at(at, lambda: fault(harness, first))
    first.interceptor.armed = True
    await scenario(harness, first, second)
    return first.interceptor.calls


@pytest.mark.parametrize("fault", [kill, stop_beyond_the_lease])
@pytest.mark.parametrize("scenario", [whole, stopped])
def test_a_fault_at_any_call_changes_no_outcome(scenario: Scenario, fault: ReplicaFault) -> None:
    calls = run_scenario(lambda harness: run_with_fault(harness, scenario, at=-1, fault=fault))
    assert {"submit", "commands.start", "write_operation"} <= set(calls)
    for at in moments(calls, fault):
        try:
            run_scenario(lambda harness, at=at: run_with_fault(harness, scenario, at=at, fault=fault))  # type: ignore[misc]
        except BaseException as error:
            moment = "after" if at % 2 else "before"
            error.add_note(f"{fault.__name__} {moment} call {at // 2} of {calls}")
            raise
