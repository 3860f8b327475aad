"""Define terminals: what a command with one asks for, and the rules of an installation about them.

A shell is a command with a terminal. Its bytes pass through a server and are stored nowhere; how many there
were is a part of the command's record.
"""

from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.access import Role
from muster.domain.errors import Forbidden

SIDE_MAX = 1000
"""Rows or columns. A larger window is shown in part."""
LINGER = 60.0
"""Seconds for which a node keeps a shell whose person is away. The agent's file has the same figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How many characters a terminal shows. Zero rows: there is no terminal, only two pipes."""

    rows: int
    cols: int

    def __post_init__(self) -> None:
        checks.whole("terminal.rows", self.rows, least=0, most=SIDE_MAX)
        checks.whole("terminal.cols", self.cols, least=0 if self.rows == 0 else 1, most=SIDE_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How many bytes a shell's person sent and got. Not what they were."""

    received: int
    sent: int

    def __post_init__(self) -> None:
        for name in ("received", "sent"):
            checks.whole(f"traffic.{name}", getattr(self, name), least=0, most=2**62)


class Allowed(StrEnum):
    """Who may open shells."""

    OPERATOR = "operator"
    ADMIN = "admin"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    allowed: Allowed = Allowed.OPERATOR
    """Operators run any command anyway. A shell adds that a person looks around."""
    idle_timeout: float = 1800.0
    """Seconds without a key typed. The person has probably left the desk."""
    per_node: int = 8
    """Shells on one node at a time. Each costs the agent a thread and a connection."""
    per_server: int = 100
    """Shells through one server at a time. Each costs two connections."""

    def check(self, role: Role) -> None:
        """Raise Forbidden unless the role may open shells here."""
        if self.allowed is Allowed.OFF:
            raise Forbidden(
                'cannot open a shell: this installation has them switched off ([shells] allowed = "off")'
            )
        if self.allowed is Allowed.ADMIN and role is not Role.ADMIN:
            raise Forbidden(
                f"cannot open a shell as {role}: this installation keeps shells to admins"
                ' ([shells] allowed = "admin")'
            )
