"""Ids for tests: countable, so that a failure reads the same every time."""

from itertools import count


class CountingIds:
    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers):06d}"

    def secret(self) -> str:
        return self.new("secret")

    def jitter(self) -> float:
        return 0.5
