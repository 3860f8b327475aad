"""Many light agents in one process: they speak the agents' protocol, attach at once, and do nothing else.

Each holds its stream on a connection of its own and reports on another. One more connection carries the
heartbeats of all.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.children import say, told
from bench.http_client import Wire
from bench.load_generator import BEAT, STREAM

AGENT = "/api/v1/agent"
EVERY = 5.0


async def live(port: int, token: str) -> None:
    done = ""
    async with Wire(port) as ear, Wire(port) as mouth:
        async for line in ear.lines(STREAM, token=token):
            desired: Any = json.loads(line)["desired"]
            fact = {f"{desired['directive']}ed": desired["assignment_id"]}
            if desired["directive"] in ("attach", "detach") and str(fact) != done:
                await mouth.ask("POST", f"{AGENT}/report", token=token, said=fact)
                done = str(fact)


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
        for token, _ in nodes:
            group.create_task(live(port, token))
        group.create_task(beat(port, [token for token, _ in nodes]))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
