"""Which engine takes how many machines. Pure.

Each machine goes to the engine with the largest share of free places, so that load spreads as engines differ
in size. Equal ones are taken in the order of the settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    capacity: int
    taken: int

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.taken)


def placed(count: int, rooms: Mapping[str, Room]) -> tuple[str, ...]:
    """The engine of each machine; fewer than asked for if no more fit."""
    left = {name: room.free for name, room in rooms.items()}
    chosen: list[str] = []
    for _ in range(count):
        best = max(left, key=lambda name: left[name] / max(1, rooms[name].capacity), default=None)
        if best is None or not left[best]:
            break
        left[best] -= 1
        chosen.append(best)
    return tuple(chosen)
