"""What sign-in by an identity provider adds to Muster."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from muster.integration import Check, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table


class OpenIdConnect(Integration):
    name = "oidc"
    setup = "see docs/sign-in.md"

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.oidc.tables import SETTINGS

        return {self.name: SETTINGS}

    async def connect(self, site: Site) -> Parts:
        from muster.integrations.oidc.parts import connect

        return connect(site)

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.oidc.doctor import checks

        return checks(machine.config)


INTEGRATION = OpenIdConnect()
