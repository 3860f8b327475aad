"""A command: one process execution on an assignment.

pending → running → exited | lost. The agent journals a command's id before it starts it, so nothing
starts twice. A command whose end is unknown is `lost`, never "failed". Output is kept beside the record,
by offset, up to a stated cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import IllegalTransition, InvalidRequest
from muster.domain.ids import AssignmentId, CommandId, NodeId, OperationId
from muster.domain.lifecycle import ENDING
from muster.domain.node import Node
from muster.domain.reasons import ADVICE, BY_RULE, Reason
from muster.domain.terminal import Traffic, Window

OUTPUT_CAP = 16 * 1024 * 1024
"""Bytes of output kept per command; what comes after is dropped and marked as such."""
ARGUMENTS_MAX = 1000
ARGUMENT_MAX = 128 * 1024 - 1
"""Bytes of one argument, or of one variable with its name: the kernel's own limit, less the final NUL."""
VARIABLES_MAX = 200
COLLECT_MAX = 100
TREE_BYTES_MAX = 512 * 1024 * 1024
"""What is sent to a node or brought back from it, unpacked; the agent keeps the same limit."""
ARCHIVE_BYTES_MAX = 256 * 1024 * 1024
"""The same as it travels: compressed."""
EXIT_CODE_MAX = 255
SIGNAL_MAX = 64


class CommandState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What to execute. The same for every node of a run, apart from what the node adds itself."""

    argv: tuple[str, ...]
    env: tuple[Variable, ...] = ()
    timeout: float | None = None
    archive: str | None = None
    """A blob to unpack into the workspace first."""
    stdin: str | None = None
    """A blob that the process reads as its standard input; None: it reads nothing."""
    collect: tuple[str, ...] = ()
    """Paths in the workspace to bring back afterwards."""
    terminal: Window | None = None
    """A person is connected to it: it reads what they type, and its output goes to them alone."""

    def __post_init__(self) -> None:
        self._check_argv(self.argv)
        self._check_env(self.env)
        if self.timeout is not None:
            checks.seconds("timeout", self.timeout)
        if self.archive is not None:
            checks.text("archive", self.archive)
        if self.stdin is not None:
            checks.text("stdin", self.stdin)
        self._check_collect(self.collect)
        if self.terminal is not None and (self.stdin is not None or self.collect):
            raise InvalidRequest("terminal", None, "must be left out with stdin or collect")

    def _check_argv(self, argv: object) -> None:
        rule = f"must be a program and its arguments: 1 to {ARGUMENTS_MAX} texts"
        if not isinstance(argv, tuple) or not 1 <= len(argv) <= ARGUMENTS_MAX or argv[0] == "":
            raise InvalidRequest("argv", argv, rule)
        for argument in argv:
            if not _passable(argument):
                rule = f"must be text without NUL or lone surrogates, at most {ARGUMENT_MAX} bytes"
                raise InvalidRequest("argv", argument, rule)

    def _check_env(self, env: object) -> None:
        if not isinstance(env, tuple) or len(env) > VARIABLES_MAX:
            raise InvalidRequest("env", None, f"must be at most {VARIABLES_MAX} variables")
        for variable in env:
            if not isinstance(variable.name, str) or not variable.name.isidentifier():
                raise InvalidRequest("env", variable.name, "must be named like PATH")
            if not isinstance(variable.value, str) or not _passable(f"{variable.name}={variable.value}"):
                # The value is the caller's, and may be a secret: it is not repeated.
                rule = f"must hold text without NUL or lone surrogates, at most {ARGUMENT_MAX} bytes"
                raise InvalidRequest("env", variable.name, rule)
        if len({variable.name for variable in env}) != len(env):
            raise InvalidRequest("env", None, "must name each variable once")

    def _check_collect(self, paths: object) -> None:
        if not isinstance(paths, tuple) or len(paths) > COLLECT_MAX:
            raise InvalidRequest("collect", paths, f"must be at most {COLLECT_MAX} paths")
        for path in paths:
            checks.text("collect", path, longest=4096)
            if path.startswith("/") or ".." in path.split("/"):
                raise InvalidRequest("collect", path, "must be a path inside the workspace")


def _passable(text: object) -> bool:
    """Return whether a process can get the text: execve takes bytes that end at a NUL."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        return len(text.encode()) <= ARGUMENT_MAX
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    id: CommandId
    operation_id: OperationId
    """The provision whose node it runs on."""
    assignment_id: AssignmentId
    node_id: NodeId
    ordinal: int
    """Its place among the nodes of its run, from 0."""
    count: int
    run: str
    execution: Execution
    state: CommandState = CommandState.PENDING
    version: int = 1
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    cancel_requested_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    truncated_at: int | None = None
    """How many bytes of output are kept, if more came: the rest was dropped."""
    reason: Reason | None = None
    """Why it was lost, if its node was taken away for one; or that its time was over."""
    deadline_at: float | None = None
    """When its own timeout is over: counted from its start, before that from its creation."""
    actor: str = ""
    """Who asked for it; empty: it isn't known."""
    traffic: Traffic | None = None
    """What went through its terminal, once it has ended."""

    @property
    def blobs(self) -> tuple[str, ...]:
        """Return what the node may fetch for the command."""
        named = (self.execution.archive, self.execution.stdin)
        return tuple(each for each in named if each is not None)

    @property
    def ended(self) -> bool:
        return self.state in (CommandState.EXITED, CommandState.LOST)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return what the process sees beside the node's own clean environment. Nothing of it is secret."""
        given = {variable.name: variable.value for variable in self.execution.env}
        return {
            **given,
            "MUSTER_RUN": self.run,
            "MUSTER_NODE": self.node_id,
            "MUSTER_INDEX": str(self.ordinal),
            "MUSTER_COUNT": str(self.count),
        }


def due(execution: Execution, *, since: float) -> float | None:
    """Return when the timeout of an execution that begins at `since` is over."""
    return None if execution.timeout is None else since + execution.timeout


def started(command: Command, *, now: float) -> Command:
    if command.state is not CommandState.PENDING:
        raise IllegalTransition(f"cannot start command {command.id}: it is {command.state}")
    return replace(
        command,
        state=CommandState.RUNNING,
        version=command.version + 1,
        started_at=now,
        deadline_at=due(command.execution, since=now),
    )


def exited(
    command: Command,
    *,
    exit_code: int | None,
    signal: int | None,
    now: float,
    timed_out: bool = False,
    traffic: Traffic | None = None,
) -> Command:
    """Return the command after its process ended. `timed_out`: the node ended it, past its own timeout."""
    if exit_code is not None:
        checks.whole("exit_code", exit_code, least=0, most=EXIT_CODE_MAX)
    if signal is not None:
        checks.whole("signal", signal, least=1, most=SIGNAL_MAX)
    if command.ended:
        raise IllegalTransition(f"cannot end command {command.id}: it is {command.state}")
    return replace(
        command,
        state=CommandState.EXITED,
        version=command.version + 1,
        ended_at=now,
        exit_code=exit_code,
        signal=signal,
        detail=_timed_out(command.execution.timeout) if timed_out else "",
        reason=Reason.DEADLINE_EXCEEDED if timed_out else None,
        traffic=traffic,
    )


def _timed_out(timeout: float | None) -> str:
    return "timed out" if timeout is None else f"timed out after {timeout:g} s and was killed"


def lost(command: Command, *, detail: str, now: float, reason: Reason | None = None) -> Command:
    if command.ended:
        raise IllegalTransition(f"cannot lose command {command.id}: it is {command.state}")
    return replace(
        command,
        state=CommandState.LOST,
        version=command.version + 1,
        ended_at=now,
        detail=detail,
        reason=reason,
    )


def unserved(command: Command, node: Node | None, *, now: float) -> Command:
    """Return the command as lost, because its node no longer serves it, with the reason of the node's end."""
    reason = _taken_for(command, node)
    if node is None or reason is None:
        return lost(command, detail="its node was released before the command ended", now=now)
    told = f": {node.detail}" if node.detail else ""
    what = (
        f"the run passed its max_runtime{told}"
        if reason is Reason.MAX_RUNTIME
        else f"its node was terminated before the command ended ({reason}{told})"
    )
    return lost(command, detail=f"{what}; {ADVICE[reason]}", now=now, reason=reason)


def unanswered(command: Command, *, now: float) -> Command:
    """Return the command as lost: past its timeout, on a node that does not answer. The node may still end
    it."""
    timeout = command.execution.timeout or 0.0
    detail = f"timed out after {timeout:g} s; its node does not answer, so its end is not confirmed"
    return lost(command, detail=detail, now=now, reason=Reason.DEADLINE_EXCEEDED)


def _taken_for(command: Command, node: Node | None) -> Reason | None:
    """Return why the node was terminated. None: it ended this assignment in good order, or has no record."""
    if node is None or node.assignment_id != command.assignment_id:
        return None
    over = node.state in ENDING and node.reason not in BY_RULE
    return node.reason if over else None


def cancel_requested(command: Command, *, now: float) -> Command | None:
    """Return the command with a cancel request. None: it has ended, or the request is known."""
    if command.ended or command.cancel_requested_at is not None:
        return None
    return replace(command, version=command.version + 1, cancel_requested_at=now)


def truncated(command: Command, *, kept: int) -> Command | None:
    """Return the command with its output marked as cut. None: that is known."""
    if command.truncated_at is not None:
        return None
    return replace(command, version=command.version + 1, truncated_at=kept)


LOST_EXIT = 125
"""What a lost command counts as where an exit code is needed."""
OVERRUN_EXIT = 124
"""The same of one that took too long, or whose run did."""
_OVERRUN = (Reason.MAX_RUNTIME, Reason.DEADLINE_EXCEEDED)
SIGNAL_BASE = 128


def exit_status(command: Command) -> int:
    """Return the exit status as a shell would."""
    return exit_status_of(command.state, command.reason, command.exit_code, command.signal)


def exit_status_of(state: str, reason: str | None, exit_code: int | None, signal: int | None) -> int:
    if reason in _OVERRUN:
        return OVERRUN_EXIT
    if state != CommandState.EXITED:
        return LOST_EXIT
    if signal is not None:
        return SIGNAL_BASE + signal
    return exit_code if exit_code is not None else LOST_EXIT
