"""What a template says about its nodes on the server's own machine, checked."""

from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks


class Demand(StrEnum):
    """What a template demands around its runs."""

    ANY = "any"
    """What the server has."""
    SANDBOX = "sandbox"
    """Without a sandbox, no node."""


class Home(StrEnum):
    """How a job sees MUSTER_HOME, where the boot script left its files."""

    READ_ONLY = "read-only"
    OVERLAY = "overlay"
    """Each command may write to it; what it writes goes with its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    isolation: Demand = Demand.ANY
    home: Home = Home.READ_ONLY

    def __post_init__(self) -> None:
        checks.word("process.isolation", self.isolation, Demand)
        checks.word("process.home", self.home, Home)
