"""Commands, archives and results."""

from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import command as domain
from muster.domain.command import CommandState, exit_status
from muster.domain.errors import InvalidRequest
from muster.domain.health import Silence
from muster.domain.reasons import Reason
from muster.domain.terminal import SIDE_MAX
from muster.wire.base import EXAMPLE_TIME, PageQuery, Query, Shape, Time, convert

INDEXES_MOST = 1000
EXECUTION_EXAMPLE = {"argv": ["make", "test"], "env": {"CI": "1"}, "timeout": 600}
COMMAND_EXAMPLE: dict[str, Any] = {
    "id": "cmd-1hx2k9q0c7m3t8v5e4",
    "operation_id": "op-1hx2k9q0c7m3t8v5e1",
    "assignment_id": "as-1hx2k9q0c7m3t8v5e3",
    "node_id": "node-1hx2k9q0c7m3t8v5e2",
    "run": "ci-42",
    "ordinal": 0,
    "count": 1,
    "argv": ["make", "test"],
    "timeout": 600.0,
    "archive": None,
    "stdin": None,
    "collect": [],
    "terminal": False,
    "actor": "ci (tok-1hx2k9q0c7m3t8v5e0)",
    "traffic": None,
    "state": "exited",
    "version": 3,
    "created_at": EXAMPLE_TIME,
    "started_at": EXAMPLE_TIME,
    "ended_at": EXAMPLE_TIME,
    "cancel_requested_at": None,
    "exit_code": 0,
    "signal": None,
    "exit_status": 0,
    "detail": "",
    "truncated": False,
    "kept": None,
    "reason": None,
    "silent_since": None,
    "given_up_at": None,
}


class Window(Shape):
    """The size of a terminal, in characters."""

    EXAMPLE = {"rows": 24, "cols": 80}

    rows: Annotated[int, Meta(ge=0, le=SIDE_MAX)]
    """0: no terminal, only pipes."""
    cols: Annotated[int, Meta(ge=0, le=SIDE_MAX)]


class Traffic(Shape):
    """How many bytes went through a terminal."""

    EXAMPLE = {"received": 120, "sent": 4096}

    received: int
    """Typed."""
    sent: int
    """Shown."""


class Execution(Shape):
    """What to execute. No shell is involved; the workspace is the working directory."""

    EXAMPLE = EXECUTION_EXAMPLE

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    timeout: float | None = None
    archive: str | None = None
    """The id of an uploaded archive (PUT /blobs) to unpack into the workspace first."""
    stdin: str | None = None
    """The id of uploaded bytes (PUT /blobs) to read as standard input; without it, there is none."""
    collect: tuple[str, ...] = ()
    """Paths in the workspace to bring back; see GET /commands/{id}/artifact."""
    terminal: Window | None = None
    """Connect a person to it; see GET /commands/{id}/terminal. Its output is not kept."""

    @classmethod
    def of(cls, execution: domain.Execution) -> Self:
        return convert(cls, execution, env={each.name: each.value for each in execution.env})

    def execution(self) -> domain.Execution:
        env = tuple(domain.Variable(name=name, value=value) for name, value in self.env.items())
        return convert(domain.Execution, self, env=env)


class CommandsRequest(Shape):
    """Execute on the nodes of a provision, named by its operation, by a run that has only one live, or by one
    of its nodes."""

    EXAMPLE = {"run": "ci-42", "execution": EXECUTION_EXAMPLE}

    operation_id: str | None = None
    run: str | None = None
    node_id: str | None = None
    """On this node alone."""
    indexes: Annotated[tuple[int, ...], Meta(max_length=INDEXES_MOST)] = ()
    """On these alone; empty: on all."""
    execution: Execution

    def __post_init__(self) -> None:
        named = [each for each in (self.operation_id, self.run, self.node_id) if each is not None]
        if len(named) != 1:
            rule = "name either an operation_id, a run or a node_id"
            raise InvalidRequest("operation_id", self.operation_id, rule)
        if self.node_id is not None and self.indexes:
            raise InvalidRequest("indexes", None, "must be left out with a node_id: it is one node")


class Command(Shape):
    """One execution on one node. Its environment stays out: it belongs to the caller."""

    EXAMPLE = COMMAND_EXAMPLE

    id: str
    operation_id: str
    assignment_id: str
    node_id: str
    run: str
    ordinal: int
    count: int
    argv: tuple[str, ...]
    timeout: float | None = None
    archive: str | None = None
    stdin: str | None = None
    collect: tuple[str, ...] = ()
    terminal: bool = False
    """Whether a person is connected to it: a shell."""
    actor: str = ""
    """Who asked for it; empty: it isn't known."""
    traffic: Traffic | None = None
    """How many bytes went through its terminal, once it has ended. What they were is kept nowhere."""
    state: CommandState
    version: int
    created_at: Time
    started_at: Time | None = None
    ended_at: Time | None = None
    cancel_requested_at: Time | None = None
    exit_code: int | None = None
    signal: int | None = None
    exit_status: int | None = None
    """As a shell would say it, once it has ended."""
    detail: str = ""
    truncated: bool = False
    """Whether output beyond the cap was dropped."""
    kept: int | None = None
    """How many bytes of it were kept then."""
    reason: Reason | None = None
    """Why it was lost, if its node was taken away for one; deadline_exceeded: it timed out."""
    silent_since: Time | None = None
    """Since when its node does not answer; null: it does, or the command has ended."""
    given_up_at: Time | None = None
    """When the node is given up then, and the command with it, unless it answers before."""

    @property
    def ended(self) -> bool:
        return self.exit_status is not None

    @classmethod
    def of(cls, command: domain.Command, silence: Silence | None = None) -> Self:
        asked = command.execution
        return convert(
            cls,
            command,
            argv=asked.argv,
            timeout=asked.timeout,
            archive=asked.archive,
            stdin=asked.stdin,
            collect=asked.collect,
            terminal=asked.terminal is not None,
            exit_status=exit_status(command) if command.ended else None,
            truncated=command.truncated_at is not None,
            kept=command.truncated_at,
            silent_since=silence.since if silence else None,
            given_up_at=silence.given_up_at if silence else None,
        )


class CommandsQuery(PageQuery):
    operation_id: str | None = None
    """All commands on the nodes of one provision, oldest first. Without it: newest first, in pages."""
    run: str | None = None


class OutputQuery(Query):
    offset: Annotated[int, Meta(ge=0)] = 0
    follow: bool = False
    """Keep sending until the command has ended."""


class Blob(Shape):
    EXAMPLE = {"id": "sha256-" + 64 * "0", "size": 10240, "expires_at": EXAMPLE_TIME}

    id: str
    size: int
    expires_at: Time
