"""Describe machines in batches: callers ask together and are answered together, at a bounded rate.

A caller that asks while a batch waits for its turn joins it. So the number of calls depends on the rate, not
on the number of operations. Also translates AWS's answers into machines.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from muster.domain.template import UsageClass
from muster.integrations.ec2 import tags
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.errors import ended_by
from muster.ports.provider import LaunchRequest, Machine, MachineState

TOGETHER = 200
"""Values that one filter takes."""
PAGE = 1000
VERB = "describe_instances"
STATES = {
    "pending": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "shutting-down": MachineState.STOPPING,
    "stopping": MachineState.STOPPING,
    "stopped": MachineState.STOPPING,
    "terminated": MachineState.GONE,
}
"""A stopped machine costs money and can start again: it isn't gone."""
ENDED = (MachineState.STOPPING, MachineState.GONE)
THERE = [name for name, state in STATES.items() if state is not MachineState.GONE]
_LIVING = {"Name": "instance-state-name", "Values": THERE}


class _Look:
    def __init__(self) -> None:
        self.keys: dict[str, bool] = {}
        self.task: asyncio.Task[list[Machine]] | None = None


class _Batcher:
    """Describes by one filter. With a filter, unlike a list of ids, unknown machines are left out and fail
    no caller."""

    def __init__(self, aws: Aws, name: str, *more: Mapping[str, Any]) -> None:
        self._aws = aws
        self._name = name
        self._more = more
        self._next: _Look | None = None
        self._under_way: dict[asyncio.Task[list[Machine]], bool] = {}

    async def found(self, keys: Sequence[str]) -> list[Machine]:
        if self._next is None:
            self._next = _Look()
            self._next.task = asyncio.create_task(self._look(self._next))
            self._under_way[self._next.task] = True
            self._next.task.add_done_callback(self._ended)
        look = self._next
        look.keys.update(dict.fromkeys(keys, True))
        assert look.task is not None  # noqa: S101 — set where it is made
        # Shielded: one asker who gives up must not take the answer away from the others.
        return await asyncio.shield(look.task)

    async def _look(self, look: _Look) -> list[Machine]:
        try:
            await self._aws.turn(self._aws.reads)
        finally:
            self._next = None
        keys = sorted(look.keys)
        found: list[Machine] = []
        for start in range(0, len(keys), TOGETHER):
            found += await self._asked(keys[start : start + TOGETHER], paced=start > 0)
        return found

    async def _asked(self, keys: Sequence[str], *, paced: bool) -> list[Machine]:
        token: str | None = None
        found: list[Machine] = []
        while True:
            if paced or token:
                await self._aws.turn(self._aws.reads)
            page = await self._aws.call(
                VERB,
                self._aws.reads,
                Filters=[{"Name": self._name, "Values": list(keys)}, *self._more],
                MaxResults=PAGE,
                **({"NextToken": token} if token else {}),
            )
            found += machines(page)
            token = page.get("NextToken")
            if not token:
                return found

    def _ended(self, task: asyncio.Task[list[Machine]]) -> None:
        self._under_way.pop(task, None)
        if not task.cancelled():
            task.exception()  # every caller may have given up

    async def close(self) -> None:
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


class Describer:
    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._by_id = _Batcher(aws, "instance-id")
        self._by_token = _Batcher(aws, f"tag:{tags.TOKEN}", _LIVING)

    async def of_ids(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        if not machine_ids:
            return {}
        found = {machine.id: machine for machine in await self._by_id.found(machine_ids)}
        return {machine_id: found[machine_id] for machine_id in machine_ids if machine_id in found}

    async def of_launch(self, token: str) -> Sequence[Machine]:
        found = await self._by_token.found([token])
        return sorted((each for each in found if each.token == token), key=lambda each: each.id)

    async def all(self, installation_id: str) -> AsyncIterator[Machine]:
        """Return all machines in AWS's own order, which holds while nothing changes."""
        own = {"Name": f"tag:{tags.INSTALLATION}", "Values": [installation_id]}
        async for page in self._aws.pages(VERB, Filters=[own, _LIVING], MaxResults=PAGE):
            for machine in machines(page):
                yield machine

    async def close(self) -> None:
        await self._by_id.close()
        await self._by_token.close()


def machines(page: Mapping[str, Any]) -> Iterator[Machine]:
    """Yield the machines of a page of DescribeInstances."""
    for reservation in page.get("Reservations", ()):
        for instance in reservation.get("Instances", ()):
            carried = tags.read(instance.get("Tags", ()))
            state = STATES.get(instance.get("State", {}).get("Name", ""), MachineState.PENDING)
            ended = (instance.get("StateReason") or {}) if state in ENDED else {}
            yield Machine(
                id=instance["InstanceId"],
                installation_id=carried.get(tags.INSTALLATION, ""),
                token=carried.get(tags.TOKEN, ""),
                instance_type=instance.get("InstanceType", ""),
                usage_class=_usage(instance.get("InstanceLifecycle")),
                state=state,
                why=_why(ended),
                reason=ended_by(str(ended.get("Code") or "")),
            )


def launched_machines(answer: Mapping[str, Any], asked: LaunchRequest) -> Iterator[Machine]:
    """Yield the machines of an answer to CreateFleet."""
    for group in answer.get("Instances", ()):
        for machine_id in group.get("InstanceIds", ()):
            yield Machine(
                id=machine_id,
                installation_id=asked.installation_id,
                token=asked.token,
                instance_type=group.get("InstanceType", ""),
                usage_class=_usage(group.get("Lifecycle")),
                state=MachineState.PENDING,
            )


def _why(reason: Mapping[str, Any]) -> str:
    """Return the reason's text with its code once: AWS begins most messages with it."""
    code, text = str(reason.get("Code") or ""), str(reason.get("Message") or "")
    return text if text.startswith(code) else f"{code}: {text}"


def _usage(lifecycle: str | None) -> UsageClass:
    return UsageClass.SPOT if lifecycle == "spot" else UsageClass.ON_DEMAND
