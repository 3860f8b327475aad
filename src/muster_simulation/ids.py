"""Seeded names and chance: the Ids port of the simulation. The same seed gives the same ids, in order."""

from random import Random


class SeededIds:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:06d}"

    def secret(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def jitter(self) -> float:
        return self._random.random()
