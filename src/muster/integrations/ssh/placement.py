"""Which hosts a launch gets, and how many nodes each: a pure decision."""

import hashlib
from collections.abc import Iterable, Mapping

from muster.integrations.ssh.tables import Place


def placed(count: int, free: Mapping[str, int], place: Place) -> dict[str, int]:
    """At most `count` nodes by host. Fewer if there is no more room. Hosts without a node are left out."""
    room = {name: left for name, left in free.items() if left > 0}
    return _spread(count, room) if place is Place.SPREAD else _packed(count, room)


def _spread(count: int, room: Mapping[str, int]) -> dict[str, int]:
    """One each in turn; the emptiest hosts first."""
    given: dict[str, int] = {}
    for _ in range(min(count, sum(room.values()))):
        open_ = (name for name in room if given.get(name, 0) < room[name])
        name = min(open_, key=lambda each: (given.get(each, 0), -room[each], each))
        given[name] = given.get(name, 0) + 1
    return given


def _packed(count: int, room: Mapping[str, int]) -> dict[str, int]:
    """The fewest hosts: the fullest one that holds all that is left, else the emptiest wholly."""
    given: dict[str, int] = {}
    left = count
    while left and len(given) < len(room):
        others = [name for name in room if name not in given]
        enough = [name for name in others if room[name] >= left]
        name = min(enough, key=lambda each: (room[each], each)) if enough else _emptiest(others, room)
        given[name] = min(left, room[name])
        left -= given[name]
    return given


def _emptiest(names: Iterable[str], room: Mapping[str, int]) -> str:
    return min(names, key=lambda each: (-room[each], each))


def ranked(token: str, names: Iterable[str]) -> list[str]:
    """Hosts in an order that depends on the token alone: all callers agree on the first one that is there."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{token}\0{name}".encode()).hexdigest())
