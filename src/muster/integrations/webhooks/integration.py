"""What outgoing webhooks add to Muster."""

from collections.abc import Mapping
from typing import ClassVar

from muster.integration import OPERATING, Command, Integration, Parts, Site


class OutgoingWebhooks(Integration):
    name = "webhooks"
    setup = "add a [webhooks.NAME]: see docs/webhooks.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "webhooks": Command(
            OPERATING,
            "List webhooks, test one, and see to what was not delivered.",
            "muster.integrations.webhooks.cli",
        )
    }

    async def connect(self, site: Site) -> Parts:
        webhooks = site.tables[self.name]
        if not webhooks:
            return Parts()
        from muster.integrations.webhooks.follower import Webhooks

        return Parts(
            standing=lambda given: (Webhooks(given, webhooks, site.urls[0].rstrip("/")),),
            outgoing=[each.name for each in webhooks],
        )


INTEGRATION = OutgoingWebhooks()
