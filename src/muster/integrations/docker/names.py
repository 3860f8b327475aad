"""Names, labels and machine ids: how what is ours is told from everything else on an engine.

A launch's name is a hash of installation and token, so two installations never meet. A machine's id says its
engine, so only that one is asked about it.
"""

import hashlib
import re
from dataclasses import dataclass

INSTALLATION = "muster.installation"
KIND = "muster.kind"
LAUNCH = "muster.launch"
MACHINE = "muster.machine"
TOKEN = "muster.token"  # noqa: S105 — a name
TYPE = "muster.type"
USAGE = "muster.usage"
SECRET_HASH = "muster.secret-sha256"  # noqa: S105 — a name
_MACHINE = re.compile(r"([a-z0-9][a-z0-9-]{0,31})\.([0-9a-f]{24})\.(0|[1-9][0-9]{0,4})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineName:
    engine: str
    launch: str
    ordinal: int

    @property
    def id(self) -> str:
        return f"{self.engine}.{self.launch}.{self.ordinal}"

    @property
    def container(self) -> str:
        return f"muster-{self.launch}-{self.ordinal}"

    @property
    def fate(self) -> str:
        """The volume that says what became of it."""
        return f"muster-{self.launch}-{self.ordinal}"

    @property
    def failure(self) -> str:
        """The volume that says why it could not start."""
        return f"{self.fate}-failed"


def launch_name(installation_id: str, token: str) -> str:
    return hashlib.sha256(f"{installation_id}\0{token}".encode()).hexdigest()[:24]


def launch_volume(launch: str) -> str:
    return f"muster-{launch}"


def parsed(machine_id: object) -> MachineName | None:
    """The parts of a machine id; None if it is none of ours."""
    found = _MACHINE.fullmatch(machine_id) if isinstance(machine_id, str) else None
    if found is None:
        return None
    return MachineName(engine=found[1], launch=found[2], ordinal=int(found[3]))
