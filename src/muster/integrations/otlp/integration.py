"""What tracing adds to Muster."""

from collections.abc import Mapping
from typing import Any

from muster.integration import Integration


class Otlp(Integration):
    name = "otlp"
    setup = "set endpoint under [otlp]: see docs/tracing.md"

    def used(self, tables: Mapping[str, Any]) -> bool:
        return tables[self.name].endpoint is not None


INTEGRATION = Otlp()
