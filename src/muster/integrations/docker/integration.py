"""What the provider `docker` adds to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.integration import Check, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable


class Docker(Integration):
    name = "docker"
    providers = (name,)
    setup = "name an engine: [docker.NAME] with its host. See docs/docker.md"

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.docker.tables import SETTINGS

        return {self.name: SETTINGS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.docker.tables import TEMPLATE

        return (TEMPLATE,)

    async def connect(self, site: Site) -> Parts:
        if not site.tables[self.name]:
            return Parts()
        from muster.integrations.docker.parts import connect

        return await connect(site.tables[self.name], site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.docker.doctor import checks

        return checks(machine)


INTEGRATION = Docker()
