"""Summarise commands: the worst exit code, and how each failed."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli import output

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command
    from muster.wire.operations import Operation

FAILURES_SHOWN = 10


def commands_of_run(client: "SyncClient", operation: "Operation") -> "list[Command]":
    """Return the commands that a `run` has started; a run that failed early may have few or none."""
    from muster.client import calls
    from muster.domain.errors import NotFound

    found = []
    for number in range(operation.detail.count or 0):
        try:
            found.append(client.send(calls.command(f"{operation.operation_id}.{number}")))
        except NotFound:
            continue
    return found


def worst_exit_code(commands: Sequence["Command"]) -> int:
    return max((command.exit_status or 0 for command in commands), default=0)


def decided_by_commands(ended: "Operation") -> bool:
    """Return whether a run started all its commands, so that they alone decide its outcome."""
    from muster.domain.operation import Status
    from muster.domain.reasons import Reason

    failed = ended.error is not None and ended.error.reason is Reason.COMMAND_FAILED
    return ended.status is Status.SUCCEEDED or failed


def exit_code(ended: "Operation", commands: Sequence["Command"]) -> int:
    """Return the exit code of an ended run: its worst command, unless room or time ran out."""
    from muster.cli.exits import FAILED, code_of_operation
    from muster.domain.operation import Status

    code = code_of_operation(ended)
    of_commands = code == FAILED and ended.status is Status.FAILED
    return worst_exit_code(commands) or code if of_commands else code


def print_failures(commands: Sequence["Command"]) -> None:
    """Print the failed commands on stderr. JSON output has them already."""
    failed = [command for command in commands if command.exit_status and not output.wants_json()]
    for command in failed[:FAILURES_SHOWN]:
        output.say(f"[{command.ordinal}] {describe_end(command)} on {command.node_id}", file=sys.stderr)
    if len(failed) > FAILURES_SHOWN:
        more = len(failed) - FAILURES_SHOWN
        output.say(f"… and {more} more: see `muster logs {commands[0].operation_id}`", file=sys.stderr)


def describe_end(command: "Command") -> str:
    if command.reason is not None and command.exit_code is None and command.signal is None:
        return f"{command.state}: {command.detail}"
    if command.reason is not None:
        return command.detail
    if command.signal is not None:
        return f"ended by signal {command.signal}"
    if command.exit_code is not None:
        return f"exit {command.exit_code}"
    return f"{command.state}: {command.detail}" if command.detail else str(command.state)
