"""What the provider `kvm` adds to Muster."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.integration import Check, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from pathlib import Path

    from muster.config.tables import Table, TemplateTable
    from muster.domain.reasons import Reason


class Kvm(Integration):
    name = "kvm"
    providers = (name,)
    local = True
    setup = "set capacity under [kvm]. See docs/kvm.md"

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.kvm.tables import SETTINGS

        return {self.name: SETTINGS}

    def template_tables(self) -> Sequence["TemplateTable[Any]"]:
        from muster.integrations.kvm.tables import TEMPLATE

        return (TEMPLATE,)

    def advice(self) -> "Mapping[Reason, str]":
        from muster.integrations.kvm.tables import ADVICE

        return ADVICE

    async def connect(self, site: Site) -> Parts:
        if not site.tables[self.name].capacity:
            return Parts()
        from muster.integrations.kvm.parts import connect

        return await connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.kvm.doctor import checks

        return checks(machine)

    def running(self, nodes: "Path", tables: Mapping[str, Any]) -> Mapping[str, int]:
        from muster.slots.tree import running

        return running(tables[self.name].directory or nodes / self.name)


INTEGRATION = Kvm()
