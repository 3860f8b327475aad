"""What executables as providers add to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from muster.integration import OPERATING, Check, Command, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable


class Executables(Integration):
    name = "command"
    family = name
    setup = "name its executable under [command.NAME]: see docs/provider-protocol.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "provider": Command(
            OPERATING, "Try an executable that makes machines.", "muster.integrations.command.cli"
        )
    }

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.command.tables import SETTINGS

        return {self.name: SETTINGS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.command.tables import TEMPLATE

        return (TEMPLATE,)

    async def connect(self, site: Site) -> Parts:
        if not site.tables[self.name]:
            return Parts()
        from muster.integrations.command.parts import connect

        return await connect(site.tables[self.name], site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.command.doctor import checks

        return checks(machine)


INTEGRATION = Executables()
