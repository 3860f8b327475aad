"""Many light agents in one process: they speak the agents' protocol, attach at once, and do nothing else.

Each holds its stream on a connection of its own and reports on another. One more connection carries the
heartbeats of all.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from bench.children import say, told
from bench.http_client import Wire
from bench.load_generator import BEAT, STREAM

AGENT = "/api/v1/agent"
EVERY = 5.0
OPENING = 32
"""Connections that have shown no token yet. The server takes few from one address."""


async def live(port: int, token: str, opening: asyncio.Semaphore) -> None:
    done = ""
    async with AsyncExitStack() as stack:
        mouth: Wire | None = None
        await opening.acquire()
        ear = await stack.enter_async_context(Wire(port))
        async for line in ear.lines(STREAM, token=token):
            desired: Any = json.loads(line)["desired"]
            fact = {f"{desired['directive']}ed": desired["assignment_id"]}
            if mouth is None:
                opening.release()
                mouth = Wire(port)
            if desired["directive"] in ("attach", "detach") and str(fact) != done:
                if not done:
                    await stack.enter_async_context(mouth)
                await report(mouth, token, fact)
                done = str(fact)


async def report(mouth: Wire, token: str, fact: Mapping[str, str]) -> None:
    try:
        await mouth.ask("POST", f"{AGENT}/report", token=token, said=fact)
    except (asyncio.IncompleteReadError, ConnectionError):  # the server closed it, since nothing was said
        await mouth.reopen()
        await mouth.ask("POST", f"{AGENT}/report", token=token, said=fact)


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
        opening = asyncio.Semaphore(OPENING)
        for token, _ in nodes:
            group.create_task(live(port, token, opening))
        group.create_task(beat(port, [token for token, _ in nodes]))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
