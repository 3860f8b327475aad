"""The instance types on offer, and which of them serves a request.

Owns the choice: a type must have the class's processors exactly and at least its memory, and match one of
the patterns. Several may fit; chance takes one, as an allocation strategy would.
"""

from dataclasses import dataclass
from random import Random

from muster.domain.matching import type_matches
from muster.domain.template import RESOURCE_CLASSES, ResourceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    cpu: int
    memory_mib: int


def _catalogue() -> tuple[InstanceType, ...]:
    """Three families, as clouds have them: memory per processor grows from c to r."""
    families = (("c7", 1), ("m7", 2), ("r7", 4))
    return tuple(
        InstanceType(name=f"{family}.{size.name}", cpu=size.cpu, memory_mib=size.memory_mib * factor)
        for size in RESOURCE_CLASSES.values()
        for family, factor in families
    )


CATALOGUE = _catalogue()


def candidates(size: ResourceClass, patterns: tuple[str, ...]) -> tuple[InstanceType, ...]:
    return tuple(
        item
        for item in CATALOGUE
        if item.cpu == size.cpu and item.memory_mib >= size.memory_mib and type_matches(item.name, patterns)
    )


def choose(size: ResourceClass, patterns: tuple[str, ...], random: Random) -> InstanceType | None:
    fitting = candidates(size, patterns)
    return random.choice(fitting) if fitting else None
