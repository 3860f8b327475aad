"""What an agent says and is told. Small, versioned by its path, and lenient about nothing but new fields."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from muster.api.models.base import Asked, In, Out, example
from muster.domain.command import Command, CommandState
from muster.domain.desired import Desired, Directive
from muster.domain.health import Health
from muster.domain.ids import AssignmentId
from muster.domain.serving import App
from muster.enrolment.reports import Report

POLL_MOST = 60.0
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
            "collect": [],
        }
    ],
}


class Said(In):
    """An agent may be newer than its server: fields that we don't know are left aside."""

    model_config = ConfigDict(strict=True, extra="ignore")


class JoinIn(Said):
    model_config = example({"proof": "process:m-7:…", "key": "made-at-start", "boot_id": "boot-1"})

    proof: str = Field(max_length=65536)
    key: str
    boot_id: str


class BeatIn(Said):
    """Read without the model layer; described here for the documentation."""

    model_config = example({"activity": 1234})

    activity: int | None = None
    """Grows with what the boot does; matters until the node has booted."""
    status: Health | None = None
    """How a service feels, by its own word."""
    reason: str = ""


class BeatOut(Out):
    model_config = example({"version": 4})

    version: int
    """Of the node's record: if it moved, ask for the desired state."""


class ReportIn(Said):
    model_config = example({"booted": True})

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

    def report(self) -> Report:
        return Report(
            booted=self.booted,
            attached=_assignment(self.attached),
            detached=_assignment(self.detached),
            failed=self.failed,
            failed_assignment=_assignment(self.failed_assignment),
            phase=self.phase,
            step=self.step or None,
            left=self.left,
            interrupted=self.interrupted,
        )


class DesiredAsked(Asked):
    known: int = -1
    timeout: float = Field(default=0.0, ge=0, le=POLL_MOST, allow_inf_nan=False)


class OrderOut(Out):
    id: str
    argv: list[str]
    env: dict[str, str]
    timeout: float | None
    cancel: bool
    archive: str | None
    collect: list[str]

    @classmethod
    def of(cls, command: Command) -> Self:
        asked = command.execution
        return cls(
            id=command.id,
            argv=list(asked.argv),
            env=dict(command.environment),
            timeout=asked.timeout,
            cancel=command.cancel_requested_at is not None,
            archive=asked.archive,
            collect=list(asked.collect),
        )


class DesiredOut(Out):
    model_config = example(DESIRED_EXAMPLE)

    version: int
    directive: Directive
    assignment_id: str | None
    run: str | None
    dead_man: float
    kit: bool
    """To attach, ask for a kit first."""
    commands: list[OrderOut]

    @classmethod
    def of(cls, desired: Desired, commands: Sequence[Command]) -> Self:
        return cls(
            version=desired.version,
            directive=desired.directive,
            assignment_id=desired.assignment_id,
            run=desired.run,
            dead_man=desired.dead_man,
            kit=desired.kit,
            commands=[OrderOut.of(command) for command in commands],
        )


class KitIn(Said):
    model_config = example({"assignment": "as-1hx2k9q0c7m3t8v5e3"})

    assignment: str


class KitOut(Out):
    model_config = example({"program": "print('ready')\n"})

    program: str
    """For this node's interpreter, over its standard input. Holds secrets."""


class BootOut(Out):
    script: str
    env: dict[str, str]


class JoinOut(Out):
    model_config = example(
        {
            "node_id": "node-1hx2k9q0c7m3t8v5e2",
            "token": "speaks-for-this-node-only",
            "beat_seconds": 5.0,
            "boot": {"script": "true\n", "env": {}},
            "desired": DESIRED_EXAMPLE,
        }
    )

    node_id: str
    token: str
    beat_seconds: float
    boot: BootOut
    desired: DesiredOut


class EnrolIn(Said):
    model_config = example(
        {
            "key": "drawn-at-random-when-the-app-started",
            "boot_id": "boot-1",
            "name": "web-1",
            "address": "http://10.0.0.5:8000/health",
            "beat_seconds": 5.0,
        }
    )

    key: str
    """The same key is the same join. Another one is another node."""
    boot_id: str
    name: str
    address: str | None = None
    """Where it can be probed."""
    beat_seconds: float = 5.0

    def app(self) -> App:
        return App(
            key=self.key,
            boot_id=self.boot_id,
            name=self.name,
            address=self.address or "",
            beat_seconds=self.beat_seconds,
        )


class EnrolOut(Out):
    model_config = example(
        {
            "node_id": "node-1hx2k9q0c7m3t8v5e2",
            "token": "speaks-for-this-node-only",
            "desired": {**DESIRED_EXAMPLE, "commands": []},
        }
    )

    node_id: str
    token: str
    desired: DesiredOut


class OutputAt(Asked):
    offset: int = Field(ge=0)


class KeptOut(Out):
    model_config = example({"offset": 4096, "full": False})

    offset: int
    """How much is kept: where the next piece starts."""
    full: bool


class StateIn(Said):
    model_config = example({"state": "exited", "exit_code": 0, "signal": None})

    state: Annotated[CommandState, Field(strict=False)]
    exit_code: int | None = None
    signal: int | None = None


class StateOut(Out):
    model_config = example({"state": "exited"})

    state: CommandState


class StoredOut(Out):
    model_config = example({"size": 10240})

    size: int


def _assignment(value: str | None) -> AssignmentId | None:
    return None if value is None else AssignmentId(value)
