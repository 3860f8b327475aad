"""Slow is not stuck: boots that take long, stand still, come late, or are late because nobody was there."""

from typing import Any

import pytest

from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation, Status
from muster.domain.reasons import Reason
from muster.domain.template import Reuse
from muster.enrolment.enroller import Report
from tests.stage import NEVER_BOOTS, Manner, Replica, Stage, staged

SWEEP = 10.0
SEED = Manner(
    boot=423.0,
    steps=((42.0, ""),),
    # The script runs for 381 s and names no step: 107 s of it a silent download, the rest at work.
    busy=((42.0, 100.0), (207.0, 423.0)),
)


async def asked(stage: Stage, *manners: Manner, **fields: Any) -> tuple[Replica, Operation, Node]:
    await stage.template(**fields)
    stage.agents.script(*manners)
    replica = await stage.replica()
    operation = await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    return replica, operation, node


@staged
async def test_the_boot_that_the_source_system_killed_succeeds_under_defaults(stage: Stage) -> None:
    _, operation, node = await asked(stage, SEED)
    await stage.succeeded(operation)
    assert "extend" not in await stage.history(node.id)
    assert stage.now - node.created_at == pytest.approx(423.0, abs=2.0)


@staged
async def test_a_boot_that_still_advances_at_its_deadline_is_extended_and_so_is_its_operation(
    stage: Stage,
) -> None:
    slow = Manner(boot=700.0, busy=((0.0, 700.0),))
    _, operation, node = await asked(stage, slow, provision_timeout=400.0)
    ended = await stage.succeeded(operation)
    given = [event for event in await stage.events(node.id) if event.name == "extend"]
    step = stage.settings.limits.extension
    assert len(given) >= (700.0 - 400.0) / (step + SWEEP)
    assert all("still advancing in joined" in event.detail for event in given)
    assert ended.deadline_at > operation.deadline_at
    assert ended.deadline_source == "extension"


@staged
async def test_no_boot_passes_its_ceiling(stage: Stage) -> None:
    endless = Manner(boot=100_000.0, busy=((0.0, 100_000.0),))
    fields = {"provision_timeout": 400.0, "max_provision_timeout": 900.0}
    _, operation, node = await asked(stage, endless, **fields)
    ended = await stage.ended(operation)
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.BOOT_TIMEOUT
    assert 900.0 <= stage.now - node.created_at <= 900.0 + 2 * SWEEP
    await stage.nothing_is_left()


@staged
async def test_a_timeout_that_the_caller_named_is_never_passed(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(Manner(boot=700.0, busy=((0.0, 700.0),)))
    replica = await stage.replica()
    operation = await replica.provision(1, timeout=300.0)
    ended = await stage.ended(operation)
    assert ended.status is Status.FAILED
    assert stage.now - operation.created_at <= 300.0 + SWEEP + 1.0


@staged
async def test_a_boot_that_stands_still_fails_early_and_says_where(stage: Stage) -> None:
    stuck = Manner(boot=None, steps=())
    _, operation, node = await asked(stage, stuck, provision_timeout=3000.0, stall_after=120.0)
    await stage.enrolment.report(node.id, Report(phase="boot_script", step="pull the image"))
    began = stage.now
    ended = await stage.ended(operation)
    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.BOOT_STALLED
    assert "pull the image" in ended.verdict.message
    assert ended.verdict.node_id == node.id
    assert 120.0 <= stage.now - began <= 120.0 + 2 * SWEEP
    failed = [event for event in await stage.events(node.id) if event.name == "fail"]
    assert len(failed) == 1


@staged
async def test_a_named_step_is_an_advance(stage: Stage) -> None:
    steps = tuple((100.0 * n, f"part {n}") for n in range(1, 6))
    _, operation, node = await asked(
        stage, Manner(boot=590.0, steps=steps), provision_timeout=3000.0, stall_after=110.0
    )
    await stage.succeeded(operation)
    assert (await stage.history(node.id)).count("advanced") == 5
    marks = await stage.store.marks(node.id)
    assert [mark.step for mark in marks if mark.step] == [step for _, step in steps]


# --- rescue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [30.0, 100.0])
@staged
async def test_a_boot_that_ends_after_it_was_given_up_is_rescued_for_the_pool(
    stage: Stage, late: float
) -> None:
    tardy = Manner(boot=200.0 + late)
    _, operation, node = await asked(stage, tardy, provision_timeout=200.0)
    ended = await stage.ended(operation)
    assert ended.status is Status.FAILED
    (rescued,) = await stage.count(1, NodeState.IDLE)
    assert rescued.id == node.id
    told = [event for event in await stage.events(node.id) if event.name == "rescued"]
    assert len(told) == 1
    assert "boot_timeout" in told[0].detail
    assert stage.agents.of(node.id).attached == []
    assert (await stage.operation(operation.id)).members == ()
    await stage.nothing_is_left(idle=1)


@staged
async def test_after_the_window_nobody_is_rescued(stage: Stage) -> None:
    _, operation, node = await asked(
        stage, Manner(boot=200.0 + 60.0 + 2 * SWEEP), provision_timeout=200.0, rescue_window=60.0
    )
    await stage.ended(operation)
    await stage.nothing_is_left()
    assert "rescued" not in await stage.history(node.id)


@staged
async def test_a_rescue_window_of_nothing_rescues_nobody(stage: Stage) -> None:
    _, operation, node = await asked(stage, Manner(boot=215.0), provision_timeout=200.0, rescue_window=0.0)
    await stage.ended(operation)
    await stage.nothing_is_left()
    assert "rescued" not in await stage.history(node.id)


@staged
async def test_a_late_node_of_a_template_that_does_not_pool_is_thrown_away(stage: Stage) -> None:
    _, operation, node = await asked(stage, Manner(boot=230.0), provision_timeout=200.0, reuse=Reuse.NEVER)
    await stage.ended(operation)
    await stage.nothing_is_left()
    last = [event for event in await stage.events(node.id) if event.name == "condemn"]
    assert len(last) == 1 and "booted" in last[0].detail


@staged
async def test_a_late_node_never_joins_the_operation_that_gave_it_up(stage: Stage) -> None:
    """The operation goes on with a replacement; the late one goes to the pool by itself."""
    tardy, prompt = Manner(boot=230.0), Manner(boot=100.0)
    _, operation, node = await asked(stage, tardy, prompt, provision_timeout=200.0, replacements=1)
    ended = await stage.succeeded(operation)
    assert node.id not in {member.node_id for member in ended.members}
    (rescued,) = await stage.count(1, NodeState.IDLE)
    assert rescued.id == node.id


@staged
async def test_a_late_node_of_a_refill_is_pooled_too(stage: Stage) -> None:
    await stage.template(min_idle=1, provision_timeout=200.0, max_nodes=1)
    stage.agents.script(Manner(boot=230.0))
    await stage.replica()
    (failed,) = await stage.count(1, NodeState.FAILED)
    (idle,) = await stage.count(1, NodeState.IDLE)
    assert idle.id == failed.id


@staged
async def test_a_script_that_failed_is_not_rescued(stage: Stage) -> None:
    _, operation, node = await asked(stage, Manner(fails="the boot script ended with 3\nno space left"))
    ended = await stage.ended(operation)
    assert ended.verdict is not None
    assert "the boot script ended with 3" in ended.verdict.message
    await stage.enrolment.report(node.id, Report(booted=True))
    await stage.nothing_is_left()
    assert "rescued" not in await stage.history(node.id)


# --- nobody was there -----------------------------------------------------------------------------


@staged
async def test_a_boot_whose_deadline_passed_while_nobody_watched_is_not_failed(stage: Stage) -> None:
    """Its machine was done in time, and could not say so."""
    replica, operation, node = await asked(stage, NEVER_BOOTS, provision_timeout=300.0)
    await stage.pass_time(100.0)
    replica.life.kill()
    stage.agents.of(node.id).silence()
    await stage.pass_time(2000.0)
    await stage.replica()
    await stage.pass_time(20.0)
    stage.agents.of(node.id).manner = Manner()
    await stage.enrolment.beat(node.id)
    await stage.enrolment.report(node.id, Report(booted=True))
    assert node.assignment_id is not None
    await stage.enrolment.report(node.id, Report(attached=node.assignment_id))
    await stage.enrolment.beat(node.id)
    await stage.succeeded(operation)


@staged
async def test_who_was_late_before_or_stays_away_after_is_failed_in_bounded_time(stage: Stage) -> None:
    replica, operation, node = await asked(stage, NEVER_BOOTS, provision_timeout=300.0)
    replica.life.kill()
    stage.agents.of(node.id).silence()
    await stage.pass_time(2000.0)
    back = stage.now
    await stage.replica()
    ended = await stage.ended(operation)
    assert ended.status is Status.FAILED
    assert stage.now - back <= stage.settings.limits.return_grace + 2 * SWEEP
    await stage.nothing_is_left()


@staged
async def test_idle_and_running_nodes_survive_an_absence_longer_than_their_time(stage: Stage) -> None:
    await stage.template(idle_timeout=300.0, min_idle=1, max_runtime=400.0)
    replica = await stage.replica()
    operation = await stage.succeeded(await replica.provision(1))
    await stage.count(1, NodeState.IDLE)
    (running,) = await stage.nodes(NodeState.RUNNING)
    (idle,) = await stage.nodes(NodeState.IDLE)
    replica.life.kill()
    await stage.pass_time(2000.0)
    replica = await stage.replica()
    await stage.pass_time(30.0)
    assert (await stage.node(idle.id)).state is NodeState.IDLE
    assert (await stage.node(running.id)).state is NodeState.RUNNING
    await replica.release(operation.id)
    await stage.count(2, NodeState.IDLE)
