"""A real server whose nodes are on ssh hosts: each host is a real sshd of this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.slots.tree import Slot, Tree
from muster.wire.nodes import Node
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import Body, Site, below, is_agent, until
from tests.integrations.ssh.lab import PYTHON, Lab, Machine


def config(lab: Lab, changes: Mapping[str, Mapping[str, Any]] | None = None, more: str = "") -> str:
    """A settings file with all hosts of a lab."""
    lines = ["[limits]", "beat_seconds = 1", "stale_after = 8", more, "[process]", "capacity = 0", "[ssh]"]
    lines += [f'key = "{lab.key}"', f'known_hosts = "{lab.known_hosts}"', 'config = "/dev/null"']
    lines += ["connect_timeout = 5"]
    for name, machine in lab.machines.items():
        given = {
            "address": machine.address,
            "port": machine.reached_at,
            "slots": 5,
            "python": PYTHON,
            "directory": str(machine.directory),
            **(changes or {}).get(name, {}),
        }
        lines += [f"[hosts.{name}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in given.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"' if isinstance(value, str) else repr(value)


class SshSite(Site):
    def __init__(self, root: Path, fork_server: ForkServer, lab: Lab, **options: Any) -> None:
        super().__init__(root, fork_server, machines=lab.root, **options)
        self.lab = lab

    def template(self, name: str = "ci", **fields: Any) -> None:
        super().template(name, **{"provider": "ssh", **fields})

    def machine(self, node: Node) -> Machine:
        return self.lab.machines[node.machine_id.partition("@")[2]]

    def slots(self) -> list[Slot]:
        return [slot for machine in self.lab.machines.values() for slot in self._tree(machine).all_slots()]

    def body(self, node: Node) -> Body:
        slot = self._tree(self.machine(node)).slot(node.machine_id.partition("@")[0])
        assert slot is not None

        def look() -> Body | None:
            kept = slot.kept()
            agents = [] if kept is None else [pid for pid in below(kept.pid) if is_agent(pid)]
            return None if kept is None or not agents else Body(slot=slot, keeper=kept.pid, agent=agents[0])

        return until(look, f"the agent of {node.id}")

    def _tree(self, machine: Machine) -> Tree:
        return Tree(machine.directory / self.installation_id, self.installation_id)

    def _inhabitants(self) -> list[int]:
        """Hosts and the server's sessions to them are none of the nodes."""
        return []
