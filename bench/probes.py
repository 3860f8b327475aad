"""Whether probes delay heartbeats: 1,000 services, one in five of which takes connections and never answers.

The floor is the same server with the same services, beating alike, before they say where they can be probed.
"""

import socket
from collections.abc import Sequence
from typing import Any

import httpx

from bench import Figure
from bench.children import child
from bench.empty_server import empty
from bench.server_process import Server, data_directory, served
from muster.client import calls
from muster.domain.access import Role
from muster.domain.template import Runtime, TemplateSpec
from tests.harness.async_client import AsyncClient

SERVICES = 1_000
DEAD = 5
"""One in so many."""
EVERY = 5.0
SETTLE = 15.0
SECONDS = 25.0


async def measure() -> Sequence[Figure]:
    with data_directory() as data:
        async with served(data) as server, empty() as (port, _):
            with _silent() as dead:
                quiet = await _beaten(server, await _enrolled(server, "quiet", ""))
                alive, mute = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{dead.getsockname()[1]}"
                probed = await _beaten(server, await _enrolled(server, "probed", alive, mute))
    p50, p99 = probed["p50"] * 1e3, quiet["p50"] * 1e3
    return [
        Figure(
            name=f"p99 of a heartbeat beside {SERVICES:,} probes, one in {DEAD} dead",
            value=probed["p99"] * 1e3,
            unit="ms",
            floor=quiet["p99"] * 1e3,
            target=2.0,
            lower_is_better=True,
            note=f"floor: nothing is probed; p50 {p50:.1f} and {p99:.1f} ms, {probed['late']} late",
        )
    ]


def _silent() -> socket.socket:
    """Take connections, and never answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    return listener


async def _enrolled(server: Server, template: str, alive: str, mute: str = "") -> list[tuple[str, int]]:
    async with AsyncClient(server.url, server.admin) as client:
        spec = TemplateSpec(name=template, provider="external", runtime=Runtime.SERVICE, max_nodes=SERVICES)
        await client.send(calls.limit(10 * SERVICES))
        await client.send(calls.apply(spec))
        token = await client.send(calls.make_token(template, Role.ENROL, template=template))
    found: list[tuple[str, int]] = []
    headers = {"Authorization": f"Bearer {token.secret}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30.0) as http:
        for number in range(SERVICES):
            base = mute if mute and number % DEAD == 0 else alive
            said = {
                "key": f"{template}-{number:06d}-{'k' * 16}",
                "boot_id": "boot-1",
                "name": f"{template}-{number}",
                "address": f"{base}/health?of={number}" if base else None,
                "beat_seconds": EVERY,
            }
            answer = await http.post("/api/v1/agent/enrol", json=said)
            answer.raise_for_status()
            enrolled = answer.json()
            found.append((enrolled["token"], enrolled["desired"]["version"]))
    return found


async def _beaten(server: Server, nodes: Sequence[tuple[str, int]]) -> Any:
    given = {
        "mode": "paced",
        "port": server.port,
        "tokens": [token for token, _ in nodes],
        "every": EVERY,
        "streaming": False,
        "settle": SETTLE,
        "seconds": SECONDS,
    }
    async with child("bench.load_generator", given) as generator:
        await generator.line()
        await generator.line()
        return await generator.line()
