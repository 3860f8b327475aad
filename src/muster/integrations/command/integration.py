"""What executables as providers add to Muster."""

from collections.abc import Mapping
from typing import ClassVar

from muster.integration import OPERATING, Command, Integration


class Executables(Integration):
    name = "command"
    family = name
    setup = "name its executable under [command.NAME]: see docs/provider-protocol.md"
    commands: ClassVar[Mapping[str, Command]] = {
        "provider": Command(
            OPERATING, "Try an executable that makes machines.", "muster.integrations.command.cli"
        )
    }


INTEGRATION = Executables()
