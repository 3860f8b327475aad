"""Names and chance. Seeded in the simulation, so that a run can be repeated."""

from typing import Protocol


class Ids(Protocol):
    def new(self, prefix: str) -> str:
        """Return a fresh id, never given before: `prefix-…`. Later ids sort after earlier ones, roughly."""
        ...

    def secret(self) -> str:
        """Return a fresh secret that can't be guessed."""
        ...

    def jitter(self) -> float:
        """Return a number from 0 to 1, to spread things that would otherwise happen at once."""
        ...
