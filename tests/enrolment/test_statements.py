"""What nodes say goes into events and records: secrets don't, and what can't be redacted doesn't either."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.health import Health
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import Node
from muster.domain.redaction import MARK
from muster.enrolment import reports
from muster.enrolment.reports import STEP_MAX, WITHHELD, Report
from tests.stage import NEVER_BOOTS, Stage, staged

SECRET = "hunter2"


async def booting(stage: Stage) -> Node:
    await stage.template()
    stage.agents.script(NEVER_BOOTS)
    replica = await stage.replica()
    await replica.provision(1)
    (node,) = await stage.count(1, NodeState.CREATED)
    await stage.pass_time(5.0)
    return await stage.node(node.id)


async def everything_told(stage: Stage, node: Node) -> str:
    vitals = (await stage.store.vitals([node.id]))[node.id]
    marks = await stage.store.marks(node.id)
    return f"{await stage.events(node.id)} {vitals} {await stage.node(node.id)} {marks}"


def failing(_text: str) -> str:
    raise RuntimeError(SECRET)


async def step(stage: Stage, node: Node) -> str:
    await stage.enrolment.report(node.id, Report(phase="boot_script", step=f"log in, password={SECRET}"))
    return (await stage.node(node.id)).step


async def reason(stage: Stage, node: Node) -> str:
    said = f"postgres://app:{SECRET}@db/app is down"
    await stage.enrolment.beat(node.id, said=Health.DEGRADED, reason=said)
    await stage.enrolment.heartbeats.flush()
    await stage.pass_time(15.0)
    return (await stage.store.vitals([node.id]))[node.id].health_reason


async def failure(stage: Stage, node: Node) -> str:
    await stage.enrolment.report(node.id, Report(failed=f"exit status 1\npassword={SECRET}"))
    (told,) = [event.detail for event in await stage.events(node.id) if event.name == Verb.FAIL]
    return told


Says = Callable[[Stage, Node], Awaitable[str]]


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        (step, f"log in, password={MARK}"),
        (reason, f"postgres://{MARK}@db/app is down"),
        (failure, f"exit status 1\npassword={MARK}"),
    ],
)
@staged
async def test_no_secret_comes_into_an_event_or_a_record_by_a_nodes_words(
    stage: Stage, says: Says, shown: str
) -> None:
    node = await booting(stage)
    assert await says(stage, node) == shown
    assert SECRET not in await everything_told(stage, node)


@pytest.mark.parametrize("says", [step, reason, failure])
@staged
async def test_words_that_cannot_be_redacted_are_withheld(
    stage: Stage, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "redact", failing)
    node = await booting(stage)
    assert WITHHELD in await says(stage, node)
    assert SECRET not in await everything_told(stage, node)
    assert not any(SECRET in record.getMessage() for record in stage.complaints)
    stage.complaints.clear()


@staged
async def test_a_step_with_a_secret_is_one_step_however_often_it_is_said(stage: Stage) -> None:
    node = await booting(stage)
    for _ in range(3):
        await step(stage, node)
    told = [event for event in await stage.events(node.id) if MARK in event.detail]
    assert len(told) == 1


@staged
async def test_a_step_grows_no_longer_by_what_is_withheld(stage: Stage) -> None:
    node = await booting(stage)
    said = "pwd " + "a_pwd=b " * 100
    await stage.enrolment.report(node.id, Report(phase="boot_script", step=said[:STEP_MAX].strip()))
    assert len((await stage.node(node.id)).step) <= STEP_MAX
