"""The settings [process] and the table [templates.NAME.process]."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.reasons import Reason


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    capacity: int = 20
    """Nodes that fit on this machine. Beyond it the provider says so, as a cloud would. 0: there is no such
    provider, as it must be for replicas on several machines."""
    directory: Path | None = None
    """Where they are kept; replicas on this machine share it. None: in the data directory."""
    isolation: str = "auto"


SETTINGS = Table(
    kind=ProcessConfig,
    keys={
        "capacity": values.whole(0, 10_000),
        "isolation": values.known("auto", "sandbox", "none"),
    },
    environment=("capacity", "isolation", "directory"),
)
TEMPLATE = TemplateTable(
    name="process",
    kind=ProcessSpec,
    provider="process",
    always=True,
)

ADVICE: dict[Reason, str] = {
    Reason.CAPACITY: "ask for fewer nodes, release some, or raise capacity under [process]"
    " (MUSTER_PROCESS_CAPACITY)",
    Reason.PARTIAL_LAUNCH: "try again, or ask for fewer nodes; Muster ended the processes that it started",
    Reason.MACHINE_GONE: "check for a manual kill, or a lack of memory: the node's process ended",
    Reason.PROVIDER_REFUSED: "run `muster doctor` on this machine, and check the template's parameters",
    Reason.PROVIDER_ERROR: "run `muster doctor` on this machine: it checks what nodes need here",
}
"""What helps in a cloud doesn't help here."""
