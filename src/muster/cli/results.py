"""What commands came to: the worst exit code, and who failed how."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.cli import printing

if TYPE_CHECKING:
    from muster.client.results import Command

FAILURES_SHOWN = 10


def worst(commands: Sequence["Command"]) -> int:
    return max((command.exit_status or 0 for command in commands), default=0)


def told(commands: Sequence["Command"]) -> None:
    """The failed ones, on stderr; success needs no words."""
    failed = [command for command in commands if command.exit_status]
    for command in failed[:FAILURES_SHOWN]:
        printing.say(f"[{command.ordinal}] {_how(command)} on {command.node_id}", file=sys.stderr)
    if len(failed) > FAILURES_SHOWN:
        more = len(failed) - FAILURES_SHOWN
        printing.say(f"… and {more} more: see `muster logs {commands[0].operation_id}`", file=sys.stderr)


def _how(command: "Command") -> str:
    if command.signal is not None:
        return f"ended by signal {command.signal}"
    if command.exit_code is not None:
        return f"exit {command.exit_code}"
    return f"{command.state}: {command.detail}" if command.detail else str(command.state)
