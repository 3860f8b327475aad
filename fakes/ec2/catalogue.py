"""Instance types and their prices, a small true-to-life choice, and which of them serve a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

GRAVITON = "amazon-web-services"
DEFAULT_PRICE_PROTECTION = 20
"""AWS's own, if a request doesn't say: it silently drops types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    cpu: int
    memory_mib: int
    maker: str
    cents: int
    """Per hour, in tenths of a cent: what matters is how they compare."""
    burstable: bool = False
    metal: bool = False
    previous: bool = False
    """Of a generation that AWS no longer recommends."""


_SIZES = {"medium": 1, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "12xlarge": 48}
_FAMILIES = (
    # name, GiB and price per processor, maker
    ("c7i", 2, 45, "intel"),
    ("c7a", 2, 51, "amd"),
    ("m7i", 4, 50, "intel"),
    ("r7i", 8, 66, "intel"),
    ("g6", 4, 400, "amd"),
    ("c7g", 2, 36, GRAVITON),
    ("m7g", 4, 41, GRAVITON),
)


def _catalogue() -> tuple[InstanceType, ...]:
    found = [
        InstanceType(
            name=f"{family}.{size}", cpu=cpu, memory_mib=cpu * gib * 1024, maker=maker, cents=cpu * price
        )
        for family, gib, price, maker in _FAMILIES
        for size, cpu in _SIZES.items()
        # Only ARM has a type with one processor that isn't burstable.
        if cpu > 1 or maker == GRAVITON
    ]
    found.append(
        InstanceType(name="t3.medium", cpu=2, memory_mib=4096, maker="intel", cents=42, burstable=True)
    )
    found.append(
        InstanceType(name="c7i.metal-24xl", cpu=96, memory_mib=196_608, maker="intel", cents=4300, metal=True)
    )
    # As large as a resource class, so that leaving them out is seen.
    found.append(
        InstanceType(name="c6g.metal", cpu=64, memory_mib=131_072, maker=GRAVITON, cents=2176, metal=True)
    )
    found += [
        InstanceType(name="m3.large", cpu=2, memory_mib=7680, maker="intel", cents=60, previous=True),
        InstanceType(name="m5.large", cpu=2, memory_mib=8192, maker="intel", cents=107, previous=True),
        InstanceType(name="a1.large", cpu=2, memory_mib=4096, maker=GRAVITON, cents=51, previous=True),
    ]
    return tuple(found)


CATALOGUE = _catalogue()
_GENERATIONS = ("current", "previous")
"""AWS's own, if a request doesn't say."""


def fitting(wanted: Mapping[str, Any], *, spot: bool) -> list[InstanceType]:
    """Return the types that serve a request, cheapest first."""
    found = [each for each in CATALOGUE if _fits(each, wanted)]
    if not found:
        return []
    limit = "Spot" if spot else "OnDemand"
    percent = wanted.get(f"{limit}MaxPricePercentageOverLowestPrice", DEFAULT_PRICE_PROTECTION)
    ceiling = min(each.cents / each.cpu for each in found) * (1 + percent / 100)
    return sorted(
        (each for each in found if each.cents / each.cpu <= ceiling), key=lambda each: (each.cents, each.name)
    )


def _fits(each: InstanceType, wanted: Mapping[str, Any]) -> bool:
    cpus, memory = wanted["VCpuCount"], wanted["MemoryMiB"]
    patterns = wanted.get("AllowedInstanceTypes", ["*"])
    return (
        cpus["Min"] <= each.cpu <= cpus.get("Max", 1 << 20)
        and memory["Min"] <= each.memory_mib <= memory.get("Max", 1 << 40)
        and each.maker in wanted.get("CpuManufacturers", [each.maker])
        and (not each.burstable or wanted.get("BurstablePerformance", "excluded") != "excluded")
        and ("previous" if each.previous else "current") in wanted.get("InstanceGenerations", _GENERATIONS)
        and (not each.metal or wanted.get("BareMetal", "excluded") != "excluded")
        and any(fnmatchcase(each.name, pattern.lower()) for pattern in patterns)
    )
