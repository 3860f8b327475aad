"""`muster run`: provision, send a tree, run on each node, fetch results, release.

The server does all of it as one operation, which continues without the client. The client sends, watches
and fetches.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import command_output, options, output, progress_views
from muster.cli import stdin as given
from muster.cli.command_output import commands_of_run, decided_by_commands, exit_code, print_failures
from muster.cli.connection import calls, open_client
from muster.cli.downloads import FetchedResults
from muster.cli.durations import format_taken
from muster.cli.exits import OperationFailed, UsageProblem
from muster.cli.operation_watch import Patience, detachable, progress_of, watch_hint
from muster.cli.options import with_options
from muster.cli.output import Raw
from muster.cli.stdin import Stdin
from muster.cli.uploads import upload_tree
from muster.domain.command import Execution

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command
    from muster.wire.operations import Operation, Progress

RESULTS = Path("muster-results")
_RUNNING = 5
"""The step of a run in which its commands are started."""


@with_options(options.RunOptions)
def run(
    command: options.Argv,
    *,
    sync: Annotated[
        Path | None,
        typer.Option(
            "--sync",
            metavar="DIRECTORY",
            help="Send this directory: its git-tracked files, or all of it without git.",
        ),
    ] = None,
    all_files: Annotated[
        bool, typer.Option("--all-files", help="With --sync: also what git doesn't track.")
    ] = False,
    get: Annotated[
        list[str] | None,
        typer.Option("--get", metavar="PATH", help="Bring this path back from each node. May be repeated."),
    ] = None,
    results: Annotated[
        Path,
        typer.Option(
            "--results", metavar="DIRECTORY", help="Where to: a directory per node, named by its number."
        ),
    ] = RESULTS,
    stdin: Stdin = False,
    asked: options.RunOptions,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
    _raw: Raw = False,
) -> None:
    """Provision nodes, run a command on each, show its output line by line, give the nodes back.

    MUSTER_RUN, MUSTER_INDEX, MUSTER_COUNT and MUSTER_NODE tell each copy which one it is. The exit code is
    the worst of them. Ctrl-C leaves without stopping it.
    """
    from dataclasses import replace

    if all_files and sync is None:
        raise UsageProblem("cannot use --all-files without --sync: name a directory with --sync")
    if not stdin:
        given.refuse_unread()
    with open_client() as client:
        execution = Execution(argv=tuple(command), collect=tuple(get or ()))
        request = asked.request(client)
        if sync is not None:
            execution = replace(execution, archive=upload_tree(client, sync, all_files=all_files))
        if stdin:
            execution = replace(execution, stdin=given.upload_stdin(client))
        operation = client.send(calls.run(request, execution, key=key))
        if detach:
            _left(operation)
        else:
            _watched(client, operation, wait=wait, results=results if get else None)


def _left(operation: "Operation") -> None:
    name = operation.operation_id
    output.show(operation, name, f"  {watch_hint(name)}", f"  see its output with `muster logs -f {name}`")


def _watched(
    client: "SyncClient", operation: "Operation", *, wait: float | None, results: Path | None
) -> None:
    name, patience, outputs = operation.operation_id, Patience(wait), None
    how = f"see its output with `muster logs -f {name}`, or stop it with `muster operations cancel {name}`"
    with detachable(how):
        over = threading.Event()
        feed = progress_of(client, name, patience, over)
        commands = _started(client, feed, operation)
        if output.wants_json():
            outputs = command_output.collect_output(client, commands, patience, how=how, over=over)
        else:
            command_output.print_output(client, commands, patience, how=how, over=over)
        with progress_views.choose_view(elapsed=operation.elapsed_seconds, file=sys.stderr) as view:
            for progress in feed:
                view.show(progress)
        ended = client.send(calls.operation(name))
        commands = commands_of_run(client, ended)
        fetched = FetchedResults(client, commands, results) if results is not None else None
    short = fetched is not None and bool(fetched.missing)
    code = exit_code(ended, commands) or int(short)
    if outputs is not None:
        shown = [{**output.plain(each), "output": outputs.get(each.ordinal, "")} for each in commands]
        output.print_json(
            {
                "exit_code": code,
                "operation": ended,
                "commands": shown,
                "results": fetched.places if fetched else [],
                "missing": fetched.missing if fetched else [],
            }
        )
    if not decided_by_commands(ended):
        raise OperationFailed(ended, code)
    if outputs is None:
        print_failures(commands)
        _summed_up(ended, commands, short=short)
    raise typer.Exit(code)


def _started(client: "SyncClient", feed: "Iterator[Progress]", operation: "Operation") -> "list[Command]":
    """Show the provisioning until its commands are there to be followed; then their output is shown."""
    commands: list[Command] = []
    with progress_views.choose_view(elapsed=operation.elapsed_seconds, file=sys.stderr) as view:
        for progress in feed:
            view.show(progress)
            step = progress.step or 0
            if step >= _RUNNING:
                commands = commands_of_run(client, operation)
            if step > _RUNNING or len(commands) == operation.detail.count:
                break
    return commands


def _summed_up(operation: "Operation", commands: "Sequence[Command]", *, short: bool) -> None:
    good = sum(1 for command in commands if command.exit_status == 0)
    sign = "✖" if short or good < len(commands) else "✔"
    lacking = ", but results are missing" if short else ""
    words = (
        f"{sign} {good} of {len(commands)} succeeded in {format_taken(operation.elapsed_seconds)}{lacking}"
    )
    output.say(words, file=sys.stderr)
