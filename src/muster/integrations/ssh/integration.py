"""What the provider `ssh` adds to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from muster.integration import OPERATING, Check, Command, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable


class Ssh(Integration):
    name = "ssh"
    providers = (name,)
    shared = True
    setup = "name your machines as [hosts.NAME]: see docs/ssh.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "hosts": Command(
            OPERATING,
            "List, check, drain and trust the hosts of the settings.",
            "muster.integrations.ssh.cli",
        )
    }

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.ssh.tables import HOSTS, SETTINGS

        return {self.name: SETTINGS, "hosts": HOSTS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.ssh.tables import TEMPLATE

        return (TEMPLATE,)

    async def connect(self, site: Site) -> Parts:
        if not site.tables["hosts"]:
            return Parts()
        from muster.integrations.ssh.parts import connect

        return await connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.ssh.doctor import checks

        return checks(machine)


INTEGRATION = Ssh()
