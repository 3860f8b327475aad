"""What an agent says and is told. Small, and versioned by its path."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import desired_state as domain
from muster.domain.app import App
from muster.domain.command import Command, CommandState
from muster.domain.desired_state import Directive
from muster.domain.health import Health
from muster.wire.base import AgentMessage, Query, Shape, convert
from muster.wire.commands import Traffic, Window

POLL_MOST = 60.0
ACTIVITY_MOST = 2**62
"""Bytes received count too, and a store's integer ends at 63 bits."""
DESIRED_EXAMPLE: dict[str, Any] = {
    "version": 4,
    "directive": "attach",
    "assignment_id": "as-1hx2k9q0c7m3t8v5e3",
    "run": "ci-42",
    "dead_man": 2400.0,
    "kit": False,
    "commands": [
        {
            "id": "cmd-1hx2k9q0c7m3t8v5e4",
            "argv": ["make", "test"],
            "env": {"MUSTER_INDEX": "0"},
            "timeout": None,
            "cancel": False,
            "archive": None,
            "stdin": None,
            "collect": [],
            "terminal": None,
        }
    ],
}


class JoinRequest(AgentMessage):
    EXAMPLE = {"proof": "process:m-7:…", "key": "made-at-start", "boot_id": "boot-1"}

    proof: Annotated[str, Meta(max_length=65536)]
    key: str
    boot_id: str


class Beat(AgentMessage):
    """A sign of life."""

    EXAMPLE = {"activity": 1234}

    activity: Annotated[int, Meta(ge=0, le=ACTIVITY_MOST)] | None = None
    """Grows with what the boot does; matters until the node has booted."""
    status: Health | None = None
    """How a service feels, by its own word."""
    reason: str = ""


class Beaten(Shape):
    EXAMPLE = {"version": 4}

    version: int
    """Of the node's record: if it moved, ask for the desired state."""


class Report(AgentMessage):
    EXAMPLE = {"booted": True}

    booted: bool = False
    attached: str | None = None
    detached: str | None = None
    failed: str | None = None
    failed_assignment: str | None = None
    phase: str | None = None
    step: str | None = None
    left: bool = False
    """An app's goodbye: it is no node any more."""
    interrupted: float | None = None
    """Its provider takes the machine back in so many seconds."""


class DesiredQuery(Query):
    known: int = -1
    timeout: Annotated[float, Meta(ge=0, le=POLL_MOST)] = 0.0


class Order(Shape):
    """A command that the node should execute."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    timeout: float | None
    cancel: bool
    archive: str | None
    stdin: str | None
    collect: tuple[str, ...]
    terminal: Window | None = None

    @classmethod
    def of(cls, command: Command) -> Self:
        return convert(
            cls,
            command.execution,
            id=command.id,
            env=dict(command.environment),
            cancel=command.cancel_requested_at is not None,
        )


class Desired(Shape):
    EXAMPLE = DESIRED_EXAMPLE

    version: int
    directive: Directive
    assignment_id: str | None
    run: str | None
    dead_man: float
    kit: bool
    """To attach, ask for a kit first."""
    commands: tuple[Order, ...]

    @classmethod
    def of(cls, desired: domain.Desired, commands: Sequence[Command]) -> Self:
        return cls(
            version=desired.version,
            directive=desired.directive,
            assignment_id=desired.assignment_id,
            run=desired.run,
            dead_man=desired.dead_man,
            kit=desired.kit,
            commands=tuple(Order.of(command) for command in commands),
        )


class StreamLine(Shape):
    """A line of an agent's stream."""

    EXAMPLE = {"desired": DESIRED_EXAMPLE, "beat_seconds": 5.0, "spread": 1.0}

    desired: Desired
    beat_seconds: float
    """Seconds between two beats, from now on."""
    spread: float
    """If the stream breaks: wait for a part of so many seconds, drawn at random, before you open it anew."""


class KitRequest(AgentMessage):
    EXAMPLE = {"assignment": "as-1hx2k9q0c7m3t8v5e3"}

    assignment: str


class Kit(Shape):
    EXAMPLE = {"program": "print('ready')\n"}

    program: str
    """For this node's interpreter, over its standard input. Holds secrets."""


class BootScript(Shape):
    script: str
    env: dict[str, str]


class Joined(Shape):
    EXAMPLE = {
        "node_id": "node-1hx2k9q0c7m3t8v5e2",
        "token": "speaks-for-this-node-only",
        "beat_seconds": 5.0,
        "boot": {"script": "true\n", "env": {}},
        "desired": DESIRED_EXAMPLE,
    }

    node_id: str
    token: str
    beat_seconds: float
    boot: BootScript
    desired: Desired


class EnrolRequest(AgentMessage):
    EXAMPLE = {
        "key": "drawn-at-random-when-the-app-started",
        "boot_id": "boot-1",
        "name": "web-1",
        "address": "http://10.0.0.5:8000/health",
        "beat_seconds": 5.0,
    }

    key: str
    """The same key is the same join. Another one is another node."""
    boot_id: str
    name: str
    address: str | None = None
    """Where it can be probed."""
    beat_seconds: float = 5.0

    def app(self) -> App:
        return convert(App, self, address=self.address or "")


class Enrolled(Shape):
    EXAMPLE = {
        "node_id": "node-1hx2k9q0c7m3t8v5e2",
        "token": "speaks-for-this-node-only",
        "desired": {**DESIRED_EXAMPLE, "commands": []},
    }

    node_id: str
    token: str
    desired: Desired


class OutputOffset(Query):
    offset: Annotated[int, Meta(ge=0)]


class OutputKept(Shape):
    EXAMPLE = {"offset": 4096, "full": False}

    offset: int
    """How much is kept: where the next piece starts."""
    full: bool


class CommandReport(AgentMessage):
    EXAMPLE = {"state": "exited", "exit_code": 0, "signal": None}

    state: CommandState
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    """The node ended it because its timeout was over."""
    traffic: Traffic | None = None
    """Of a terminal: the bytes that went through it."""


class CommandStatus(Shape):
    EXAMPLE = {"state": "exited"}

    state: CommandState


class Stored(Shape):
    EXAMPLE = {"size": 10240}

    size: int
