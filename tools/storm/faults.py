"""The weather: which faults strike, and when.

One thread hurts each server, one the agents, one the database.

The seed fixes each thread's faults and pauses. What they meet is up to the machine: the same seed is the same
storm, not the same trace.
"""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tools.storm.servers import Servers

EVERY = (2.0, 9.0)
"""Seconds between two faults of one thread."""
AGENTS_EVERY = (1.5, 5.0)
DATABASE_EVERY = (45.0, 90.0)
FROZEN = (0.5, 8.0)
KILLS = 0.7
"""The share of a server's faults that kill it. The others freeze it."""


class Faults:
    def __init__(self, servers: Servers, *, seed: int, over: threading.Event) -> None:
        self._servers = servers
        self._seed = seed
        self._over = over
        self.struck: Counter[str] = Counter()

    def threads(self) -> list[Callable[[], None]]:
        made: list[Callable[[], None]] = [self._agents]
        made += [self._server(place) for place in range(len(self._servers.sites))]
        if self._servers.has_database:
            made.append(self._database)
        return made

    def _until_over(self, name: str, every: tuple[float, float], strike: Callable[[Random], str]) -> None:
        chance = Random(f"{self._seed}/{name}")  # noqa: S311 — a storm to repeat, no secret
        while not self._over.wait(chance.uniform(*every)):
            self.struck[strike(chance)] += 1

    def _server(self, place: int) -> Callable[[], None]:
        def strike(chance: Random) -> str:
            if chance.random() < KILLS:
                self._servers.kill(place)
                return "servers killed"
            self._servers.freeze(place, chance.uniform(*FROZEN), self._over)
            return "servers frozen"

        return lambda: self._until_over(f"server-{place}", EVERY, strike)

    def _agents(self) -> None:
        def strike(chance: Random) -> str:
            what = chance.choice(("keeper", "agent", "agent", "job"))
            victims = [
                pid
                for body in self._servers.bodies()
                for pid in {"keeper": [body.keeper], "agent": [body.agent], "job": body.jobs[:1]}[what]
            ]
            if not victims:
                return f"no {what} to hurt"
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
            return f"{what}s killed"

        self._until_over("agents", AGENTS_EVERY, strike)

    def _database(self) -> None:
        def strike(_chance: Random) -> str:
            self._servers.crash_database()
            return "database crashes"

        self._until_over("database", DATABASE_EVERY, strike)
