import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from muster.controllers.endings import ATTEMPTS, PAUSE, EndingsListener
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.ports.provider import Machine
from tests.stage import Stage, staged


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
async def listening(stage: Stage, told: Told) -> AsyncIterator[None]:
    task = asyncio.create_task(EndingsListener(replace(stage.ports, endings=(told,))).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def gone(stage: Stage, machine_id: str) -> Machine:
    stage.cloud.end(machine_id)
    return stage.cloud.describe([machine_id])[machine_id]


@staged
async def test_a_node_whose_machine_has_ended_is_condemned_at_once(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    told = Told()
    stage.cloud.boxes[node.machine_id].why = "the agent ended with signal 9"
    async with listening(stage, told):
        told.next.put_nowait(Uncertain("the disk is full"))  # which is no reason to stop listening
        told.next.put_nowait([gone(stage, node.machine_id)])
        await stage.pass_time(2 * PAUSE)
        found = await stage.node(node.id)
    assert (found.state, found.reason) == (NodeState.TERMINATING, Reason.MACHINE_GONE)
    assert found.detail == f"machine {node.machine_id} of cloud has ended: the agent ended with signal 9"


@staged
async def test_an_ending_without_a_record_is_given_up_in_the_end(stage: Stage) -> None:
    await stage.template()
    (node,) = await stage.warm(1)
    told = Told()
    async with listening(stage, told):
        told.next.put_nowait([replace(gone(stage, node.machine_id), id="unknown")])
        await stage.pass_time((ATTEMPTS + 1) * PAUSE)
        assert (await stage.node(node.id)).state is NodeState.IDLE
