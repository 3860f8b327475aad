"""Many light agents in one process: they speak the agents' protocol, attach at once, and do nothing else.

Each holds a long poll on a connection of its own and reports on the same one; one more connection carries
everybody's heartbeats.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.beating import BEAT
from bench.children import say, told
from bench.wire import Wire

AGENT = "/api/v1/agent"
POLL = 50.0
EVERY = 5.0


async def live(port: int, token: str, version: int) -> None:
    async with Wire(port) as wire:
        known = version
        while True:
            asked = f"{AGENT}/desired?known={known}&timeout={POLL:g}"
            desired: Any = json.loads(await wire.ask("GET", asked, token=token))
            known = desired["version"]
            if desired["directive"] in ("attach", "detach"):
                fact = {f"{desired['directive']}ed": desired["assignment_id"]}
                desired = json.loads(await wire.ask("POST", f"{AGENT}/report", token=token, said=fact))
                known = desired["version"]


async def beat(port: int, tokens: Sequence[str]) -> None:
    async with Wire(port) as wire:
        while True:
            for token in tokens:
                await wire.ask("POST", BEAT, token=token, said={"activity": 1})
            if tokens:
                say({"beaten": len(tokens)})
            await asyncio.sleep(EVERY)


async def main() -> None:
    given = told()
    nodes, port = given["nodes"], given["port"]
    async with asyncio.TaskGroup() as group:
        for token, version in nodes:
            group.create_task(live(port, token, version))
        group.create_task(beat(port, [token for token, _ in nodes]))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
