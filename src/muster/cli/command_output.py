"""Print the output of commands on several nodes: each line with its node's number in front.

Lines of different nodes are never mixed. A slow reader slows the reading, not the nodes. A silent command
and a dead node look alike in the output. So a thread asks the server, and prints when a node falls silent or
answers.
"""

import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from muster.cli import output
from muster.cli.connection import calls
from muster.cli.exits import FAILED, code_of_operation
from muster.domain.command import OUTPUT_CAP
from muster.domain.errors import MusterError, NotFound
from muster.domain.operation import Status
from muster.domain.reasons import Reason
from muster.domain.text import harmless

if TYPE_CHECKING:
    from muster.cli.operation_watch import Patience
    from muster.client import SyncClient
    from muster.wire.commands import Command
    from muster.wire.operations import Operation

AT_ONCE = 64
"""Connections for output; of more commands, the first ones to end make room for the next."""
LAST_OUTPUT = 2.0
"""Seconds that output may still come after the run has ended: its nodes send the last of it then."""
_WAITING = 256
_LINE_MOST = 64 * 1024
_COLOURS = (36, 33, 35, 32, 34, 31)

Item = tuple[int, bytes | Exception | None] | None
"""None: the run is over, and what comes now is waited for no longer."""
FAILURES_SHOWN = 10


def follow_output(
    client: "SyncClient",
    commands: Sequence["Command"],
    patience: "Patience",
    *,
    how: str,
    follow: bool = True,
    marked: bool = False,
    over: threading.Event | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield (ordinal, output) as output arrives, until all commands have ended or `over` is set.

    A run that was stopped does not wait for nodes that do not answer. `marked`: say in the output where the
    server stopped keeping it. Raises OutOfPatience.
    """
    items: queue.Queue[Item] = queue.Queue(_WAITING)
    todo: queue.SimpleQueue[Command] = queue.SimpleQueue()
    for command in commands:
        todo.put(command)

    def read() -> None:
        while True:
            try:
                command = todo.get_nowait()
            except queue.Empty:
                return
            try:
                for piece in _output(client, command, follow=follow, marked=marked):
                    items.put((command.ordinal, piece))
                items.put((command.ordinal, None))
            except Exception as error:
                items.put((command.ordinal, error))

    for _ in range(min(AT_ONCE, len(commands))):
        threading.Thread(target=read, daemon=True).start()
    if over is not None:
        threading.Thread(target=_stop, args=(over, items), daemon=True).start()
    open_ones = len(commands)
    with monitor_silence(client, commands if follow else ()) as nodes:
        while open_ones:
            try:
                got = items.get(timeout=patience.left())
            except queue.Empty:
                raise patience.over(how) from None
            if got is None:
                return
            ordinal, item = got
            if isinstance(item, Exception):
                raise item
            nodes.heard(ordinal)
            if item is None:
                nodes.ended(ordinal)
                open_ones -= 1
            yield ordinal, item or b""


def _stop(over: threading.Event, items: "queue.Queue[Item]") -> None:
    over.wait()
    time.sleep(LAST_OUTPUT)
    items.put(None)


def _output(client: "SyncClient", command: "Command", *, follow: bool, marked: bool) -> Iterator[bytes]:
    yield from client.follow(command.id) if follow else _kept(client, command)
    if marked:
        kept = client.send(calls.command(command.id)).kept
        if kept is not None:
            full, capped = (
                "the server's disk was full",
                f"{kept / 2**20:.3g} MiB of output are kept per command",
            )
            yield f"\n… cut here: {capped if kept >= OUTPUT_CAP else full}\n".encode()


def _kept(client: "SyncClient", command: "Command") -> Iterator[bytes]:
    offset = 0
    while piece := client.send(calls.output(command.id, offset=offset)):
        offset += len(piece)
        yield piece


def print_output(
    client: "SyncClient",
    commands: Sequence["Command"],
    patience: "Patience",
    *,
    how: str,
    follow: bool = True,
    over: threading.Event | None = None,
) -> None:
    """Print it, line by line."""
    printer = PrefixedPrinter(colour=output.uses_colour())
    try:
        for ordinal, piece in follow_output(
            client, commands, patience, how=how, follow=follow, marked=True, over=over
        ):
            printer.take(ordinal, piece)
    finally:
        printer.finish()


def collect_output(
    client: "SyncClient",
    commands: Sequence["Command"],
    patience: "Patience",
    *,
    how: str,
    follow: bool = True,
    over: threading.Event | None = None,
) -> dict[int, str]:
    """Return all output as text, by ordinal."""
    found = {command.ordinal: bytearray() for command in commands}
    for ordinal, piece in follow_output(client, commands, patience, how=how, follow=follow, over=over):
        found[ordinal] += piece
    return {ordinal: data.decode("utf-8", "replace") for ordinal, data in found.items()}


class PrefixedPrinter:
    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._rest: dict[int, bytes] = {}

    def take(self, ordinal: int, piece: bytes) -> None:
        *lines, rest = (self._rest.get(ordinal, b"") + piece).split(b"\n")
        if len(rest) > _LINE_MOST:
            lines, rest = [*lines, rest], b""
        self._rest[ordinal] = rest
        if lines:
            self._write(ordinal, lines)

    def finish(self) -> None:
        """Print the last lines that have no line end."""
        for ordinal in sorted(self._rest):
            if self._rest[ordinal]:
                self._write(ordinal, [self._rest[ordinal]])
        self._rest.clear()

    def _write(self, ordinal: int, lines: Sequence[bytes]) -> None:
        prefix = f"[{ordinal}] "
        if self._colour:
            prefix = f"\033[{_COLOURS[ordinal % len(_COLOURS)]}m{prefix}\033[0m"
        if output.must_sanitise():
            lines = [harmless(line.decode("utf-8", "replace")).encode() for line in lines]
        out = sys.stdout.buffer
        out.write(b"".join(prefix.encode() + line + b"\n" for line in lines))
        out.flush()


LOOK_EVERY = 2.0
LOOKED_AT_MOST = 64


class SilenceMonitor:
    """The commands that are followed; used by the follower and by the watching thread."""

    def __init__(self, commands: Iterable["Command"]) -> None:
        self._open = {command.ordinal: command for command in commands}
        self._heard: set[int] = set()
        self._silent: set[int] = set()

    def heard(self, ordinal: int) -> None:
        """Note that output came, so the node lives."""
        self._heard.add(ordinal)

    def ended(self, ordinal: int) -> None:
        self._open.pop(ordinal, None)

    def look(self, client: "SyncClient") -> None:
        """Ask after those that were quiet since the last look, and tell what changed."""
        heard, self._heard = self._heard, set()
        quiet = [command for command in list(self._open.values()) if command.ordinal not in heard]
        for command in quiet[:LOOKED_AT_MOST]:
            with suppress(MusterError):  # a server that is away is told by who follows the output
                self._tell(client.send(calls.command(command.id)))

    def _tell(self, command: "Command") -> None:
        silent, told = command.silent_since is not None, command.ordinal in self._silent
        if silent and not told:
            self._silent.add(command.ordinal)
            output.print_notice("node_silent", _silence(command))
        elif told and not silent and not command.ended:
            self._silent.discard(command.ordinal)
            output.print_notice("node_back", f"[{command.ordinal}] {command.node_id} answers again")


def _silence(command: "Command") -> str:
    since, until = command.silent_since, command.given_up_at
    return (
        f"[{command.ordinal}] {command.node_id} has not answered since {output.timestamp(since)}"
        f" ({output.age(since)} ago);"
        f" Muster gives it up at {output.timestamp(until)} (in {output.time_left(until)})"
    )


@contextmanager
def monitor_silence(client: "SyncClient", commands: Iterable["Command"]) -> Iterator[SilenceMonitor]:
    """Watch for silent nodes in a thread of its own, so that asking never delays output."""
    found, over = SilenceMonitor(commands), threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY):
            found.look(client)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield found
    finally:
        over.set()


def commands_of_run(client: "SyncClient", operation: "Operation") -> "list[Command]":
    """Return the commands that a `run` has started; a run that failed early may have few or none."""
    found = []
    for number in range(operation.detail.count or 0):
        with suppress(NotFound):
            found.append(client.send(calls.command(f"{operation.operation_id}.{number}")))
    return found


def worst_exit_code(commands: Sequence["Command"]) -> int:
    return max((command.exit_status or 0 for command in commands), default=0)


def decided_by_commands(ended: "Operation") -> bool:
    """Return whether a run started all its commands, so that they alone decide its outcome."""
    failed = ended.error is not None and ended.error.reason is Reason.COMMAND_FAILED
    return ended.status is Status.SUCCEEDED or failed


def exit_code(ended: "Operation", commands: Sequence["Command"]) -> int:
    """Return the exit code of an ended run: its worst command, unless room or time ran out."""
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
