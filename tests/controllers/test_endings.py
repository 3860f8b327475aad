import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from muster.controllers.vanished_machines import ATTEMPTS, PAUSE, EndingsListener
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.ports.provider import Machine
from tests.harness import Harness, with_harness


class Told:
    """What a provider that can tell says next."""

    name = "cloud"

    def __init__(self) -> None:
        self.next: asyncio.Queue[Sequence[Machine] | Exception] = asyncio.Queue()

    async def ended(self) -> Sequence[Machine]:
        said = await self.next.get()
        if isinstance(said, Exception):
            raise said
        return said


@asynccontextmanager
async def listening(harness: Harness, told: Told) -> AsyncIterator[None]:
    task = asyncio.create_task(EndingsListener(replace(harness.ports, endings=(told,))).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def gone(harness: Harness, machine_id: str) -> Machine:
    harness.cloud.end(machine_id)
    return harness.cloud.describe([machine_id])[machine_id]


@with_harness
async def test_a_node_whose_machine_has_ended_is_condemned_at_once(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    told = Told()
    harness.cloud.boxes[node.machine_id].why = "the agent ended with signal 9"
    async with listening(harness, told):
        told.next.put_nowait(Uncertain("the disk is full"))  # which is no reason to stop listening
        told.next.put_nowait([gone(harness, node.machine_id)])
        await harness.pass_time(2 * PAUSE)
        found = await harness.node(node.id)
    assert (found.state, found.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert found.detail == f"machine {node.machine_id} of cloud has ended: the agent ended with signal 9"


@with_harness
async def test_an_ending_without_a_record_is_given_up_in_the_end(harness: Harness) -> None:
    await harness.template()
    (node,) = await harness.warm(1)
    told = Told()
    async with listening(harness, told):
        told.next.put_nowait([replace(gone(harness, node.machine_id), id="unknown")])
        await harness.pass_time((ATTEMPTS + 1) * PAUSE)
        assert (await harness.node(node.id)).state is NodeState.IDLE
