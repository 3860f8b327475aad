"""What a look at Azure shows of a cluster. Any of it may be missing: then it is unknown, not wrong.

Owns how Azure's words for states are read: case aside. A word that is not known here counts as work in
progress.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.domain.errors import ProviderError

SUCCEEDED = "succeeded"
RUNNING = "running"
_FAILED = ("failed", "canceled", "cancelled")
DELETING = "deleting"
_STOPPING = (DELETING, "canceling", "cancelling")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSight:
    name: str
    state: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A managed cluster as it was seen."""

    tags: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    """Its provisioning state, in Azure's word."""
    power: str = ""
    pools: tuple[PoolSight, ...] = ()
    principal: str = ""
    kubelet: str = ""
    fqdn: str = ""
    kubernetes_version: str = ""
    problem: ProviderError | None = None
    """What Azure says about its failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A resource group as it was seen."""

    region: str
    state: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def succeeded(state: str) -> bool:
    return state.lower() == SUCCEEDED


def failed(state: str) -> bool:
    return state.lower() in _FAILED


def stopping(state: str) -> bool:
    """On its way to being gone or cancelled."""
    return state.lower() in _STOPPING


def in_progress(state: str) -> bool:
    return not succeeded(state) and not failed(state)


def running(power: str) -> bool:
    return power.lower() == RUNNING
