"""Agents in one light process that hold their streams, come back when these break, and attach at once.

When to come back is the real agent's rule: spread as the server said if the stream had worked, else its
backoff. The agents come from several loopback addresses, as they would from several networks.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.children import say, told
from bench.http_client import HOST, request
from bench.load_generator import BEAT, STREAM
from muster.agent.agent import SILENCE, backoff

REPORT = "/api/v1/agent/report"
ADDRESSES = 200
BEATERS = 8


class Crowd:
    """`say` tells the parent each time when all streams are open."""

    def __init__(self, port: int, tokens: Sequence[str], *, beat_every: float) -> None:
        self._port = port
        self._tokens = tokens
        self._beat_every = beat_every
        self._open = 0
        self._attempts: Counter[int] = Counter()
        """Connections for streams that the server took, by the second."""
        self._broke_at = time.monotonic()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, token in enumerate(self._tokens):
                group.create_task(self._live(token, f"127.0.1.{number % ADDRESSES + 1}"))
            for place in range(BEATERS):
                group.create_task(self._beat(self._tokens[place::BEATERS]))

    async def _live(self, token: str, address: str) -> None:
        tries, spread, done = 0, 1.0, ""
        await asyncio.sleep(len(self._tokens) / 1000 * random.random())
        while True:
            heard = False
            try:
                async for line in self._lines(token, address):
                    if not heard:
                        heard, tries = True, 0
                        self._opened()
                    spread, desired = line["spread"], line["desired"]
                    if desired["directive"] in ("attach", "detach") and desired["assignment_id"] != done:
                        fact = {f"{desired['directive']}ed": desired["assignment_id"]}
                        await self._once(request("POST", REPORT, token=token, said=fact, close=True))
                        done = desired["assignment_id"]
            except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
                pass
            if heard:
                self._broken()
                await asyncio.sleep(spread * random.random())
            else:
                chance = random.random()
                await asyncio.sleep(backoff(tries, chance) + max(0.0, spread - 1.0) * chance)
                tries += 1

    async def _lines(self, token: str, address: str) -> Any:
        reader, writer = await asyncio.open_connection(HOST, self._port, local_addr=(address, 0), limit=4096)
        self._attempts[int(time.monotonic())] += 1
        try:
            writer.write(request("GET", STREAM, token=token))
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SILENCE)
            if head.split()[1] != b"200":
                raise ValueError(head.decode())
            while size := int(await asyncio.wait_for(reader.readuntil(b"\r\n"), SILENCE), 16):
                yield json.loads((await reader.readexactly(size + 2))[:size])
        finally:
            writer.transport.abort()

    async def _once(self, payload: bytes) -> None:
        """Report until it is answered: what an agent says is true until it was heard."""
        for tries in range(20):
            try:
                reader, writer = await asyncio.open_connection(HOST, self._port)
                writer.write(payload)
                answer = await asyncio.wait_for(reader.read(), SILENCE)
                writer.close()
                if answer.startswith(b"HTTP/1.1 200"):
                    return
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(backoff(tries, random.random()))

    async def _beat(self, tokens: Sequence[str]) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(HOST, self._port)
                while True:
                    for token in tokens:
                        writer.write(request("POST", BEAT, token=token, said={"activity": 1}))
                        await asyncio.wait_for(reader.readuntil(b"}"), SILENCE)
                    await asyncio.sleep(self._beat_every)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                await asyncio.sleep(1.0)

    def _opened(self) -> None:
        self._open += 1
        if self._open == len(self._tokens):
            attempts = self._attempts
            self._attempts = Counter()
            say(
                {
                    "seconds": time.monotonic() - self._broke_at,
                    "attempts": attempts.total(),
                    "most_in_a_second": max(attempts.values(), default=0),
                }
            )

    def _broken(self) -> None:
        if self._open == len(self._tokens):
            self._broke_at = time.monotonic()
        self._open -= 1


async def main() -> None:
    await Crowd(**told()).run()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
