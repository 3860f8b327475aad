"""More callers than nodes, all at once."""

import asyncio

import pytest

from muster.client import calls
from muster.domain.operation import Status
from muster.wire.operations import Operation
from tests.e2e.site import Site
from tests.harness.async_client import AsyncClient

CALLERS = 64
NODES = 20


async def _all_at_once(site: Site, patient: bool) -> list[Operation]:
    token = (site.data / "admin.token").read_text().strip()

    async with AsyncClient(site.url, token) as client:

        async def ended(operation: Operation) -> Operation:
            async for _ in client.stream(calls.watch(operation.operation_id)):
                pass
            return await client.send(calls.operation(operation.operation_id))

        async def call(number: int) -> Operation:
            request = site.request(
                1 + number % 3, f"caller-{number}", queue_timeout=100.0 if patient else 0.0
            )
            end = await ended(await client.send(calls.provision(request)))
            if end.status is Status.SUCCEEDED:
                assert len(end.members) == 1 + number % 3
                await ended(await client.send(calls.release(operation_id=end.operation_id)))
            return end

        return await asyncio.gather(*(call(number) for number in range(CALLERS)))


@pytest.mark.parametrize("patient", [False, True], ids=["who take no for an answer", "who queue"])
def test_64_callers_race_for_20_nodes(site: Site, patient: bool) -> None:
    site.template(max_nodes=NODES)
    ends = asyncio.run(_all_at_once(site, patient))
    served = [end for end in ends if end.status == "succeeded"]
    refused = [end for end in ends if end.error is not None]
    assert len(served) + len(refused) == CALLERS
    assert {end.error.reason for end in refused if end.error is not None} <= {"cap_reached"}
    assert len(refused) == 0 if patient else served
    assert len(site.slots()) <= NODES
