"""What nodes say goes into events and records: secrets don't, and what can't be redacted doesn't either."""

from collections.abc import Awaitable, Callable

import pytest

from muster.domain.health import Health
from muster.domain.lifecycle import NodeState, Verb
from muster.domain.node import Node
from muster.domain.redaction import MARK
from muster.enrolment import reports
from muster.enrolment.reports import STEP_MAX, WITHHELD, Report
from tests.harness import NEVER_BOOTS, Harness, with_harness

SECRET = "hunter2"


async def booting(harness: Harness) -> Node:
    await harness.template()
    harness.agents.script(NEVER_BOOTS)
    replica = await harness.replica()
    await replica.provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    await harness.pass_time(5.0)
    return await harness.node(node.id)


async def everything_told(harness: Harness, node: Node) -> str:
    vitals = (await harness.store.vitals([node.id]))[node.id]
    marks = await harness.store.marks(node.id)
    return f"{await harness.events(node.id)} {vitals} {await harness.node(node.id)} {marks}"


def failing(_text: str) -> str:
    raise RuntimeError(SECRET)


async def step(harness: Harness, node: Node) -> str:
    await harness.enrolment.report(node.id, Report(phase="boot_script", step=f"log in, password={SECRET}"))
    return (await harness.node(node.id)).step


async def reason(harness: Harness, node: Node) -> str:
    said = f"postgres://app:{SECRET}@db/app is down"
    await harness.enrolment.beat(node.id, said=Health.DEGRADED, reason=said)
    await harness.enrolment.heartbeats.flush()
    await harness.pass_time(15.0)
    return (await harness.store.vitals([node.id]))[node.id].health_reason


async def failure(harness: Harness, node: Node) -> str:
    await harness.enrolment.report(node.id, Report(failed=f"exit status 1\npassword={SECRET}"))
    (told,) = [event.detail for event in await harness.events(node.id) if event.name == Verb.FAIL]
    return told


Says = Callable[[Harness, Node], Awaitable[str]]


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        (step, f"log in, password={MARK}"),
        (reason, f"postgres://{MARK}@db/app is down"),
        (failure, f"exit status 1\npassword={MARK}"),
    ],
)
@with_harness
async def test_no_secret_comes_into_an_event_or_a_record_by_a_nodes_words(
    harness: Harness, says: Says, shown: str
) -> None:
    node = await booting(harness)
    assert await says(harness, node) == shown
    assert SECRET not in await everything_told(harness, node)


@pytest.mark.parametrize("says", [step, reason, failure])
@with_harness
async def test_words_that_cannot_be_redacted_are_withheld(
    harness: Harness, says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "redact", failing)
    node = await booting(harness)
    assert WITHHELD in await says(harness, node)
    assert SECRET not in await everything_told(harness, node)
    assert not any(SECRET in record.getMessage() for record in harness.complaints)
    harness.complaints.clear()


@with_harness
async def test_a_step_with_a_secret_is_one_step_however_often_it_is_said(harness: Harness) -> None:
    node = await booting(harness)
    for _ in range(3):
        await step(harness, node)
    told = [event for event in await harness.events(node.id) if MARK in event.detail]
    assert len(told) == 1


@with_harness
async def test_a_step_grows_no_longer_by_what_is_withheld(harness: Harness) -> None:
    node = await booting(harness)
    said = "pwd " + "a_pwd=b " * 100
    await harness.enrolment.report(node.id, Report(phase="boot_script", step=said[:STEP_MAX].strip()))
    assert len((await harness.node(node.id)).step) <= STEP_MAX
