"""Benchmarks: each figure beside a floor that is measured in the same run, on the same machine.

A module here offers `async def measure() -> Sequence[Figure]` and has its line in `tiny.TINY`. A floor is
the cheapest thing that could do the same work; the ratio says what our layers cost, whatever the machine.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    value: float
    unit: str
    floor: float | None = None
    """What the cheapest thing that does the same work reached in this run, in the same unit."""
    target: float | None = None
    """The least ratio of value to floor that we want, or the greatest if `lower_is_better`."""
    limit: float | None = None
    """The least value that we want whatever the floor, or the greatest, in the same unit."""
    lower_is_better: bool = False
    note: str = ""
    load: tuple[float, float] | None = None
    """The machine's load average before and after: what else ran."""

    @property
    def ratio(self) -> float | None:
        return None if not self.floor else self.value / self.floor

    @property
    def met(self) -> bool | None:
        """Return whether the target was met; None without a target."""
        found = [
            reached <= wanted if self.lower_is_better else reached >= wanted
            for reached, wanted in ((self.ratio, self.target), (self.value, self.limit))
            if reached is not None and wanted is not None
        ]
        return all(found) if found else None
