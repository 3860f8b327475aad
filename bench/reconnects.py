"""All agents come back at once: the server of 10,000 streams is killed in the middle of hand-overs.

Light agents keep the real agents' rules for coming back. What is measured ends when every stream is open
again. Every provision that was accepted before must succeed, and hand over a node of its own. No node is
released here, so a node that two provisions handed over would serve both at once. On a busy machine a node
may come back too late to attach: then another one replaces it, and the benchmark tells how many.
"""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Figure
from bench.children import Child, child
from bench.http_client import HOST, Wire, followed
from bench.server_process import Server, data_directory, served
from bench.warm_store import warm
from muster.api.connections import raise_descriptors

NODES = 10_000
PROVISIONS = 40
BEAT_EVERY = 10.0
BACK_WITHIN = 60.0
WITHIN = 240.0
ATTEMPTS_MOST = 2.0
"""Connections per agent that the new server took until all were back: more would be hammering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    seconds: float
    """From the first broken stream until all were open again."""
    attempts: float
    """Connections per agent that the new server took."""
    most_in_a_second: int
    members: Sequence[str]
    """The nodes that were handed over, of all provisions."""
    replaced: int
    """Nodes that provisions claimed and gave up."""
    cpu: float
    """Seconds of the new server's time until all were back and handed over."""
    counts: Any
    """Nodes by state, as the new server tells."""


async def measure() -> Sequence[Figure]:
    storm = await weathered(NODES, PROVISIONS)
    name = f"{NODES:,} agents whose server was killed and started again"
    found, different = len(storm.members), len(set(storm.members))
    assert found == different == PROVISIONS, (
        f"each provision has a node of its own: {PROVISIONS} handed over {found} nodes, {different} different"
    )
    return [
        Figure(
            name=f"{name}: until all streams are back",
            value=storm.seconds,
            unit="s",
            limit=BACK_WITHIN,
            lower_is_better=True,
            note=f"{PROVISIONS} provisions under way all succeeded, {storm.replaced} nodes were replaced;"
            f" at most {storm.most_in_a_second} connections began in one second;"
            f" {storm.cpu:.1f} s of the server's time",
        ),
        Figure(
            name=f"{name}: connections per agent",
            value=storm.attempts,
            unit="",
            limit=ATTEMPTS_MOST,
            lower_is_better=True,
        ),
    ]


async def weathered(nodes: int, provisions: int) -> Storm:
    raise_descriptors()
    with data_directory() as data:
        made = await warm(data, nodes)
        port = _free_port()
        async with AsyncExitStack() as stack:
            given = {"port": port, "tokens": [node.token for node in made], "beat_every": BEAT_EVERY}
            async with served(data, port=port) as first, asyncio.timeout(WITHIN):
                crowd = await stack.enter_async_context(child("bench.crowd", given))
                await crowd.line(WITHIN)
                accepted = await _accepted(first, provisions)
                os.kill(first.child.pid, signal.SIGKILL)
            async with asyncio.timeout(WITHIN):
                return await _after(data, port, crowd, accepted, nodes)


async def _after(data: Path, port: int, crowd: Child, accepted: Sequence[str], nodes: int) -> Storm:
    async with served(data, port=port) as again, asyncio.TaskGroup() as group:
        handed = [group.create_task(_members(again, each)) for each in accepted]
        back = await crowd.line(WITHIN)
        ended = [await task for task in handed]
        async with Wire(port) as wire:
            counts = json.loads(await wire.ask("GET", "/api/v1/pools", token=again.admin))
        return Storm(
            seconds=back["seconds"],
            attempts=back["attempts"] / nodes,
            most_in_a_second=back["most_in_a_second"],
            members=[member for members, _ in ended for member in members],
            replaced=sum(len(shown - set(members)) for members, shown in ended),
            cpu=again.child.usage().cpu,
            counts=counts,
        )


async def _accepted(server: Server, count: int) -> list[str]:
    """Ask for nodes, and wait for no more than that the server has taken it in."""

    async def one(number: int) -> str:
        said = {"template": "warm", "count": 1, "run": f"run-{number}"}
        async with Wire(server.port) as wire:
            answer = await wire.ask("POST", "/api/v1/provisions", token=server.admin, said=said)
        return str(json.loads(answer)["operation_id"])

    return list(await asyncio.gather(*map(one, range(count))))


async def _members(server: Server, operation_id: str) -> tuple[list[str], set[str]]:
    """Return the nodes that a provision handed over, and all that it worked with."""
    path = f"/api/v1/operations/{operation_id}"
    async with Wire(server.port) as wire:
        await followed(wire, server.admin, operation_id)
        ended = json.loads(await wire.ask("GET", path, token=server.admin))
        shown = json.loads(await wire.ask("GET", f"{path}/nodes", token=server.admin))
    return [member["node_id"] for member in ended["members"]], {node["id"] for node in shown["items"]}


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])
