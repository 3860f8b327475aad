"""`muster shell`: a terminal on a node, over the agent's own connection."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output, raw_terminal
from muster.cli.connection import calls, is_node, is_operation, open_client
from muster.cli.shell_session import Session
from muster.domain.command import Execution, Variable
from muster.domain.terminal import Window

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh -i")
"""The better of what the node has. Without a login: the environment stays what `muster exec` gives."""
_PLAIN = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


def shell(
    target: Annotated[str, typer.Argument(metavar="NODE|RUN", help="A node, a run, or a provision's id.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD", help="After `--`: a program instead of a shell.")
    ] = None,
    *,
    index: Annotated[int, typer.Option("--index", metavar="N", help="Node N of the run.", min=0)] = 0,
) -> None:
    """Open a terminal on a node, in the workspace and with the rights of its run.

    At the start of a line, `~.` leaves and `~?` helps. Every other key goes to the node, Ctrl-C too.
    Without a terminal on standard input, the shell reads what is piped in. The exit code is the shell's.
    """
    with open_client() as client:
        opened = _opened(client, target, command or [], index)
        code = Session(client, opened.id, opened.node_id).run()
    raise typer.Exit(code)


def _opened(client: "SyncClient", target: str, argv: list[str], index: int) -> "Command":
    """Start the program on the node that is meant."""
    tty = os.isatty(raw_terminal.STDIN)
    rows, cols = raw_terminal.size() if tty else (0, 0)
    if not tty:
        output.print_notice("no_terminal", "standard input is no terminal: the shell reads it as a script")
    term = Variable(name="TERM", value=os.environ.get("TERM") or "xterm-256color")
    execution = Execution(
        argv=tuple(argv or (_SHELL if tty else _PLAIN)),
        env=(term,) if tty else (),
        terminal=Window(rows=rows, cols=cols),
    )
    node, operation = is_node(target), is_operation(target)
    call = calls.execute(
        execution,
        node_id=target if node else None,
        operation_id=target if operation else None,
        run=None if node or operation else target,
        indexes=() if node else (index,),
    )
    (opened,) = client.send(call)
    if opened.count > 1 and not node and tty:
        output.print_notice("shell_node", f"node {index} of {opened.count}: {opened.node_id} (see --index)")
    return opened
