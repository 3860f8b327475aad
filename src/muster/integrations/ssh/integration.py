"""What the provider `ssh` adds to Muster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from muster.integration import OPERATING, Command, Integration

if TYPE_CHECKING:
    from muster.config.tables import Table


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

    def used(self, tables: Mapping[str, Any]) -> bool:
        return bool(tables["hosts"])


INTEGRATION = Ssh()
