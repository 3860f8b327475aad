"""Commands, archives and results over the wire."""

from datetime import datetime
from typing import Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, Asked, Out, at, example, maybe_at
from muster.api.models.operations import PAGE_MOST
from muster.domain.command import Command, CommandState, exit_status
from muster.domain.reasons import Reason

COMMAND_EXAMPLE = {
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
    "collect": [],
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
}


class CommandOut(Out):
    """One execution on one node. Its environment stays out: it belongs to the caller."""

    model_config = example(COMMAND_EXAMPLE)

    id: str
    operation_id: str
    assignment_id: str
    node_id: str
    run: str
    ordinal: int
    count: int
    argv: list[str]
    timeout: float | None
    archive: str | None
    collect: list[str]
    state: CommandState
    version: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    exit_code: int | None
    signal: int | None
    exit_status: int | None
    """As a shell would say it, once it has ended."""
    detail: str
    truncated: bool
    """Whether output beyond the cap was dropped."""
    kept: int | None
    """How many bytes of it were kept then."""
    reason: Reason | None
    """Why it was lost, if its node was taken away for one."""

    @classmethod
    def of(cls, command: Command) -> Self:
        asked = command.execution
        return cls(
            id=command.id,
            operation_id=command.operation_id,
            assignment_id=command.assignment_id,
            node_id=command.node_id,
            run=command.run,
            ordinal=command.ordinal,
            count=command.count,
            argv=list(asked.argv),
            timeout=asked.timeout,
            archive=asked.archive,
            collect=list(asked.collect),
            state=command.state,
            version=command.version,
            created_at=at(command.created_at),
            started_at=maybe_at(command.started_at),
            ended_at=maybe_at(command.ended_at),
            cancel_requested_at=maybe_at(command.cancel_requested_at),
            exit_code=command.exit_code,
            signal=command.signal,
            exit_status=exit_status(command) if command.ended else None,
            detail=command.detail,
            truncated=command.truncated_at is not None,
            kept=command.truncated_at,
            reason=command.reason,
        )


class CommandsOut(Out):
    model_config = example({"items": [COMMAND_EXAMPLE]})

    items: list[CommandOut]


class CommandsAsked(Asked):
    operation_id: str | None = None
    """All commands on the nodes of one provision, oldest first. Without it: newest first, in pages."""
    run: str | None = None
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_MOST)


class OutputAsked(Asked):
    offset: int = Field(default=0, ge=0)
    follow: bool = False
    """Keep sending until the command has ended."""


class BlobOut(Out):
    model_config = example({"id": "sha256-" + 64 * "0", "size": 10240, "expires_at": EXAMPLE_TIME})

    id: str
    size: int
    expires_at: datetime
