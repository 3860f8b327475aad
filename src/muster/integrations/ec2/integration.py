"""What the provider `ec2` adds to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from muster.integration import OPERATING, Check, Command, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable


class Ec2(Integration):
    name = "ec2"
    providers = (name,)
    setup = "set region under [ec2]: see docs/ec2.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "iam": Command(
            OPERATING, "Print the AWS policies that server and nodes need.", "muster.integrations.ec2.iam"
        )
    }

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.ec2.tables import SETTINGS

        return {self.name: SETTINGS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.ec2.tables import TEMPLATE

        return (TEMPLATE,)

    async def connect(self, site: Site) -> Parts:
        given = site.tables[self.name]
        if not given.region:
            return Parts()
        from muster.integrations.ec2.parts import connect

        return await connect(given, site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.ec2.doctor import checks

        return checks(machine.config, installation_id=machine.installation_id)


INTEGRATION = Ec2()
