"""What watching costs: hand-overs on a server with traces, on one with webhooks, and on one with neither.

The three servers are up at the same time and take turns, so that the machine is the same for all. Each cycle
is a provision of one warm node and its release, with light agents. Cycles begin at a fixed pace: their two
ends make 1,000 messages a minute. Traces and messages go to a server that does nothing. Each turn ends when
the last of them has left.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import Figure
from bench.children import child
from bench.empty_server import empty
from bench.http_client import Wire, provisioned, released
from bench.server_process import Server, data_directory, served
from bench.warm_store import warm

NODES = 40
CALLERS = 4
CYCLES = 25
"""Per turn: few, so that no server closes the connections of agents that wait for theirs."""
TURNS = 8
MESSAGES = 1000
"""A minute: two per cycle."""
SETTLE = 6.0
"""Seconds after a turn: spans are exported every five."""
WITHIN = 400.0


@dataclass(slots=True)
class Watched:
    name: str
    server: Server
    cpu: float = 0.0
    took: list[float] = field(default_factory=list)


async def measure() -> Sequence[Figure]:
    async with AsyncExitStack() as stack, asyncio.timeout(WITHIN):
        port, _ = await stack.enter_async_context(empty())
        sink = f"http://127.0.0.1:{port}"
        plain = await _started(stack, "plain", "")
        traced = await _started(stack, "traced", f'[otlp]\nendpoint = "{sink}"\n')
        hook = f'[webhooks.all]\nurl = "{sink}/"\nevents = ["operation.succeeded"]\n'
        told = await _started(stack, "told", hook)
        for number in range(TURNS):
            for each in (plain, traced, told):
                await _turn(each, f"{each.name}-{number}")
    cycles = TURNS * CYCLES
    return [
        Figure(
            name="server CPU per hand-over with its release, traced",
            value=traced.cpu / cycles * 1e3,
            unit="ms",
            floor=plain.cpu / cycles * 1e3,
            target=1.05,
            lower_is_better=True,
            note=f"{cycles} of them, every trace exported; floor: the same without traces",
        ),
        Figure(
            name="hand-over of one node, p99, with webhooks",
            value=_p99(told.took),
            unit="ms",
            floor=_p99(plain.took),
            target=1.25,
            lower_is_better=True,
            note=f"{MESSAGES:,} messages a minute, {told.cpu / cycles * 1e3:.1f} ms of CPU per cycle;"
            " floor: the same without webhooks",
        ),
    ]


async def _started(stack: AsyncExitStack, name: str, config: str) -> Watched:
    data = stack.enter_context(data_directory())
    nodes = await warm(data, NODES)
    server = await stack.enter_async_context(served(data, config=_settings(data, config)))
    given = {"port": server.port, "nodes": [(node.token, node.version) for node in nodes]}
    agents = await stack.enter_async_context(child("bench.agents", given))
    await agents.line()
    watched = Watched(name=name, server=server)
    await _cycles(watched, 2 * CALLERS, f"{name}-first")
    watched.took.clear()
    return watched


def _settings(data: Path, config: str) -> Path:
    path = data / "muster.toml"
    path.write_text(config)
    return path


async def _turn(watched: Watched, name: str) -> None:
    before = watched.server.child.usage().cpu
    await _cycles(watched, CYCLES, name)
    await asyncio.sleep(SETTLE)
    watched.cpu += watched.server.child.usage().cpu - before


async def _cycles(watched: Watched, count: int, name: str) -> None:
    numbers = iter(range(count))
    server, first = watched.server, time.perf_counter()

    async def caller() -> None:
        async with Wire(server.port) as wire:
            for number in numbers:
                await asyncio.sleep(first + number * 120 / MESSAGES - time.perf_counter())
                began = time.perf_counter()
                ended = await provisioned(
                    wire, server.admin, template="warm", count=1, run=f"{name}-{number}"
                )
                watched.took.append(time.perf_counter() - began)
                await released(wire, server.admin, ended["operation_id"])

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())


def _p99(took: Sequence[float]) -> float:
    return sorted(took)[len(took) * 99 // 100] * 1e3
