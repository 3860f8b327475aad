"""The settings [example], and the table [templates.NAME.example]."""

from dataclasses import dataclass
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleConfig:
    capacity: int = 5
    directory: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSpec:
    nice: int = 0
    """How much the machines give way to others, as nice(1) counts it."""

    def __post_init__(self) -> None:
        checks.whole("nice", self.nice, least=0, most=19)


SETTINGS = Table(
    kind=ExampleConfig,
    keys={"capacity": values.whole(0, 1000)},
    environment=("capacity",),
)
TEMPLATE = TemplateTable(
    name="example", kind=ExampleSpec, keys={"nice": values.whole(0, 19)}, provider="example"
)
