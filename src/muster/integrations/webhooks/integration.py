"""What outgoing webhooks add to Muster."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from muster.integration import OPERATING, Check, Command, Integration, Machine, Parts, Site

if TYPE_CHECKING:
    from muster.config.tables import Table


class OutgoingWebhooks(Integration):
    name = "webhooks"
    setup = "add a [webhooks.NAME]: see docs/webhooks.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "webhooks": Command(
            OPERATING, "List webhooks, or send a test message.", "muster.integrations.webhooks.cli"
        )
    }

    def tables(self) -> Mapping[str, "Table"]:
        from muster.integrations.webhooks.tables import SETTINGS

        return {self.name: SETTINGS}

    async def connect(self, site: Site) -> Parts:
        webhooks = site.tables[self.name]
        if not webhooks:
            return Parts()
        from muster.integrations.webhooks.follower import Webhooks

        return Parts(standing=lambda given: (Webhooks(given, webhooks, site.urls[0].rstrip("/")),))

    def doctor(self, machine: Machine) -> Iterator[Check]:
        from muster.integrations.webhooks.doctor import checks

        return checks(machine)


INTEGRATION = OutgoingWebhooks()
