"""What commands came to: the worst exit code, and who failed how."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli import printing

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.client.results import Command, Operation

FAILURES_SHOWN = 10


def of_run(client: "SyncClient", operation: "Operation") -> "list[Command]":
    """The commands that a `run` has started: one that failed on the way may have none, or some."""
    from muster.client import calls
    from muster.domain.errors import NotFound

    found = []
    for number in range(operation.detail.count or 0):
        try:
            found.append(client.send(calls.command(f"{operation.operation_id}.{number}")))
        except NotFound:
            continue
    return found


def worst(commands: Sequence["Command"]) -> int:
    return max((command.exit_status or 0 for command in commands), default=0)


def told(commands: Sequence["Command"]) -> None:
    """The failed ones, on stderr; success needs no words, and JSON has them all."""
    failed = [command for command in commands if command.exit_status and not printing.wants_json()]
    for command in failed[:FAILURES_SHOWN]:
        printing.say(f"[{command.ordinal}] {how_it_ended(command)} on {command.node_id}", file=sys.stderr)
    if len(failed) > FAILURES_SHOWN:
        more = len(failed) - FAILURES_SHOWN
        printing.say(f"… and {more} more: see `muster logs {commands[0].operation_id}`", file=sys.stderr)


def how_it_ended(command: "Command") -> str:
    if command.signal is not None:
        return f"ended by signal {command.signal}"
    if command.exit_code is not None:
        return f"exit {command.exit_code}"
    return f"{command.state}: {command.detail}" if command.detail else str(command.state)
