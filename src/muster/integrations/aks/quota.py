"""How far a quota falls short, and which of a cluster's nodes would fit into what is left of it.

Owns the figures in Azure's words about quotas. Text is read for them alone; what failed is told by its code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.domain.text import counted
from muster.integrations.aks import vm_size
from muster.integrations.aks.spec import AksPool, AksSpec, PoolMode

_LIMIT = re.compile(r"Current Limit:\s*(\d+)", re.IGNORECASE)
_USAGE = re.compile(r"Current Usage:\s*(\d+)", re.IGNORECASE)
_REQUIRED = re.compile(r"(?:Additional Required:|requested(?: quota)?)\s*(\d+)", re.IGNORECASE)
_LEFT = re.compile(r"(?:left regional vcpu quota|remaining)\s*(\d+)", re.IGNORECASE)
_WHICH = re.compile(
    r"approved\s+(.{1,80}?)\s+quota|for family\s+(\w{1,80})|Insufficient\s+(regional vcpu)", re.IGNORECASE
)
TO_DO = "raise the quota, or ask for fewer or smaller nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """How far a quota falls short, in vCPUs."""

    quota: str
    left: int
    wanted: int

    @property
    def missing(self) -> int:
        return max(0, self.wanted - self.left)


def shortage(message: str) -> Shortage | None:
    """The figures of a quota message; None if it has none that we can read."""
    wanted = _number(_REQUIRED, message)
    left = _number(_LEFT, message)
    limit, usage = _number(_LIMIT, message), _number(_USAGE, message)
    if left is None and limit is not None and usage is not None:
        left = max(0, limit - usage)
    if wanted is None or left is None:
        return None
    which = _WHICH.search(message)
    name = next((each for each in which.groups() if each), "") if which else ""
    return Shortage(quota=name or "vCPU", left=left, wanted=wanted)


def quota_advice(message: str, spec: AksSpec) -> str:
    """Which quota, how much is missing, and how many of the nodes would fit."""
    found = shortage(message)
    if found is None:
        return f"a quota in {spec.region} is used up; {TO_DO}"
    short = f"{counted(found.missing, 'vCPU')} short: {found.left} left of {found.wanted} wanted"
    return f"the {found.quota} quota in {spec.region} is {short}; {_room(found, spec)}; {TO_DO}"


def _room(found: Shortage, spec: AksSpec) -> str:
    nodes = counted(spec.nodes, "node")
    fits = fitting(found, spec)
    if fits is None:
        share = spec.nodes * found.left // found.wanted if found.wanted else spec.nodes
        return f"about {share} of the {nodes} would fit"
    said = f"{sum(fits.values())} of the {nodes} would fit"
    if len(spec.pools) == 1:
        return said
    each = ", ".join(f"{pool.name} {fits[pool.name]} of {pool.count}" for pool in spec.pools)
    return f"{said} ({each})"


def fitting(found: Shortage, spec: AksSpec) -> Mapping[str, int] | None:
    """How many nodes of each pool fit, System pools first, because nothing runs without them. None: that
    can't be told, because a size is not known, or because by its figures all of them would."""
    limited = _limited(found, spec)
    costs = {pool.name: vm_size.vcpus(pool.vm_size) for pool in limited}
    left = found.left
    fits = {pool.name: pool.count for pool in spec.pools}
    for pool in sorted(limited, key=lambda pool: pool.mode is not PoolMode.SYSTEM):
        cost = costs[pool.name]
        if cost is None:
            return None
        fits[pool.name] = min(pool.count, left // cost)
        left -= fits[pool.name] * cost
    return fits if sum(fits.values()) < spec.nodes else None


def _limited(found: Shortage, spec: AksSpec) -> list[AksPool]:
    """The pools that the quota is about: those of its family, or all of them."""
    family = vm_size.normal(found.quota)
    of_family = [pool for pool in spec.pools if vm_size.quota_family(pool.vm_size) == family]
    return of_family or list(spec.pools)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
