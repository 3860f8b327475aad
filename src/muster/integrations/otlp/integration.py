"""What tracing adds to Muster."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from muster.integration import Check, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table


class Otlp(Integration):
    name = "otlp"
    setup = "set endpoint under [otlp]: see docs/tracing.md"

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.otlp.tables import SETTINGS

        return {self.name: SETTINGS}

    async def connect(self, site: Site) -> Parts:
        if site.tables[self.name].endpoint is None:
            return Parts()
        from muster.integrations.otlp.parts import connect

        return await connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.otlp.doctor import checks

        return checks(machine)


INTEGRATION = Otlp()
