"""`muster run`: provision, send a tree, run on each node, bring results back, release.

The server does it all as one operation, which goes on without us; we send, watch and fetch.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import asking
from muster.cli.printing import Output

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.client.results import Command, Operation, Progress

RESULTS = Path("muster-results")
_RUNNING = 5
"""The step of a run in which its commands exist."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="After `--`: a program, its arguments.")
    ],
    *,
    count: asking.Count = 1,
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
    run_id: asking.Run = None,
    template: asking.TemplateName = None,
    resource_class: asking.Class = None,
    types: asking.Types = None,
    usage: asking.Usage = None,
    max_runtime: asking.MaxRuntime = None,
    timeout: asking.WholeTimeout = None,
    queue_timeout: asking.QueueTimeout = None,
    owner: asking.Owner = "default",
    wait: asking.Wait = None,
    detach: asking.Detach = False,
    key: asking.Key = None,
    _output: Output = None,
) -> None:
    """Provision nodes, run a command on each, show its output line by line, give the nodes back.

    MUSTER_RUN, MUSTER_INDEX, MUSTER_COUNT and MUSTER_NODE tell each copy which one it is. The exit code is
    the worst of them. Ctrl-C leaves without stopping it.
    """
    from muster.cli.connecting import connected
    from muster.cli.exits import UsageProblem
    from muster.cli.syncing import sent
    from muster.client import calls
    from muster.domain.command import Execution

    if all_files and sync is None:
        raise UsageProblem("--all-files says what --sync sends: name a directory with --sync")
    with connected() as client:
        execution: dict[str, Any] = {"argv": list(command), "collect": list(get or ())}
        Execution(argv=tuple(command), collect=tuple(get or ()))  # refused before anything is sent
        request = asking.asked(
            client,
            count=count,
            run=run_id,
            template=template,
            resource_class=resource_class,
            types=types,
            usage=usage,
            max_runtime=max_runtime,
            timeout=timeout,
            queue_timeout=queue_timeout,
            owner=owner,
        )
        if sync is not None:
            execution["archive"] = sent(client, sync, all_files=all_files)
        operation = client.send(calls.run(request, execution, key=key))
        if detach:
            _left(operation)
        else:
            _watched(client, operation, wait=wait, results=results if get else None)


def _left(operation: "Operation") -> None:
    from muster.cli import printing
    from muster.cli.watching import again

    if printing.wants_json():
        printing.document(operation)
        return
    printing.say(operation.operation_id)
    printing.say(f"  {again(operation.operation_id)}")
    printing.say(f"  see its output with `muster logs -f {operation.operation_id}`")


def _watched(
    client: "SyncClient", operation: "Operation", *, wait: float | None, results: Path | None
) -> None:
    from muster.cli import printing, streaming, views
    from muster.cli.exits import OperationFailed, of_operation
    from muster.cli.fetching import Fetched
    from muster.cli.results import of_run, told, worst
    from muster.cli.watching import Patience, detachable, progress_of
    from muster.client import calls
    from muster.domain.operation import Status

    name, patience, outputs = operation.operation_id, Patience(wait), None
    how = f"see its output with `muster logs -f {name}`, or stop it with `muster operations cancel {name}`"
    with detachable(how):
        feed = progress_of(client, name, patience)
        _until_started(feed, operation)
        commands = of_run(client, operation)
        if printing.wants_json():
            outputs = streaming.gathered(client, commands, patience, how=how)
        else:
            streaming.stream(client, commands, patience, how=how)
        with views.chosen(elapsed=operation.elapsed_seconds, file=sys.stderr) as view:
            for progress in feed:
                view.show(progress)
        ended = client.send(calls.operation(name))
        commands = of_run(client, ended)
        fetched = Fetched(client, commands, results) if results is not None else None
    short = fetched is not None and bool(fetched.missing)
    good = ended.status is Status.SUCCEEDED
    code = worst(commands) or int(short) if good else of_operation(ended)
    if outputs is not None:
        shown = [{**printing.plain(each), "output": outputs.get(each.ordinal, "")} for each in commands]
        printing.document(
            {
                "exit_code": code,
                "operation": ended,
                "commands": shown,
                "results": fetched.places if fetched else [],
                "missing": fetched.missing if fetched else [],
            }
        )
    if not good:
        raise OperationFailed(ended)
    if outputs is None:
        told(commands)
        _summed_up(ended, commands, short=short)
    raise typer.Exit(code)


def _until_started(feed: "Iterator[Progress]", operation: "Operation") -> None:
    """Show the provisioning; once commands run, their output has the stage."""
    from muster.cli import views

    with views.chosen(elapsed=operation.elapsed_seconds, file=sys.stderr) as view:
        for progress in feed:
            view.show(progress)
            if (progress.step or 0) >= _RUNNING:
                return


def _summed_up(operation: "Operation", commands: "Sequence[Command]", *, short: bool) -> None:
    from muster.cli import printing
    from muster.cli.durations import took

    good = sum(1 for command in commands if command.exit_status == 0)
    sign = "✖" if short or good < len(commands) else "✔"
    lacking = ", but results are missing" if short else ""
    words = f"{sign} {good} of {len(commands)} succeeded in {took(operation.elapsed_seconds)}{lacking}"
    printing.say(words, file=sys.stderr)
