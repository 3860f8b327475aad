"""What the provider `kvm` adds to Muster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster.integration import Integration

if TYPE_CHECKING:
    from pathlib import Path


class Kvm(Integration):
    name = "kvm"
    providers = (name,)
    local = True
    setup = "set capacity under [kvm]. See docs/kvm.md"

    def running(self, nodes: "Path", tables: Mapping[str, Any]) -> Mapping[str, int]:
        from muster.slots.tree import running

        return running(tables[self.name].directory or nodes / self.name)

    def used(self, tables: Mapping[str, Any]) -> bool:
        return bool(tables[self.name].capacity)


INTEGRATION = Kvm()
