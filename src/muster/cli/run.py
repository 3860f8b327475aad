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
from muster.domain.counting import counted

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
    timeout: asking.Timeout = None,
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
    from muster.client import calls
    from muster.domain.command import Execution

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
            execution["archive"] = _sent(client, sync)
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


def _sent(client: "SyncClient", directory: Path) -> str:
    import tempfile

    from muster.cli import packing, printing

    with tempfile.TemporaryFile(prefix="muster-sync-") as file:
        packed = packing.pack(directory, file)
        blob = client.upload(file)
    if not printing.wants_json():
        what = f"{counted(packed.files, 'file')}, {blob.size / 1024:.0f} KiB compressed"
        printing.say(f"sent {directory} ({what})", file=sys.stderr)
        for name in packed.left_out[:5]:
            printing.say(f"  without {name}: it links to something outside of it", file=sys.stderr)
    return blob.id


def _watched(
    client: "SyncClient", operation: "Operation", *, wait: float | None, results: Path | None
) -> None:
    from muster.cli import printing, streaming, views
    from muster.cli.exits import OperationFailed
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
        fetched = _Fetched(client, commands, results) if results is not None else None
    short = fetched is not None and bool(fetched.missing)
    if outputs is not None:
        shown = [{**printing.plain(each), "output": outputs.get(each.ordinal, "")} for each in commands]
        printing.document(
            {
                "exit_code": worst(commands) or int(short),
                "operation": ended,
                "commands": shown,
                "results": fetched.places if fetched else [],
                "missing": fetched.missing if fetched else [],
            }
        )
    if ended.status is not Status.SUCCEEDED:
        raise OperationFailed(ended)
    if outputs is None:
        told(commands)
        _summed_up(ended, commands)
    raise typer.Exit(worst(commands) or int(short))


def _until_started(feed: "Iterator[Progress]", operation: "Operation") -> None:
    """Show the provisioning; once commands run, their output has the stage."""
    from muster.cli import views

    with views.chosen(elapsed=operation.elapsed_seconds, file=sys.stderr) as view:
        for progress in feed:
            view.show(progress)
            if (progress.step or 0) >= _RUNNING:
                return


class _Fetched:
    """What came back from each node, and what did not."""

    def __init__(self, client: "SyncClient", commands: "Sequence[Command]", results: Path) -> None:
        from muster.cli import printing

        self.places: list[str] = []
        self.missing: list[dict[str, object]] = []
        for command in commands:
            self._fetch(client, command, results / str(command.ordinal))
        if self.places and not printing.wants_json():
            printing.say(f"results are in {results}", file=sys.stderr)

    def _fetch(self, client: "SyncClient", command: "Command", place: Path) -> None:
        import tempfile

        from muster.cli import packing
        from muster.client import ServerProblem
        from muster.domain.errors import NotFound

        with tempfile.TemporaryDirectory(prefix="muster-get-") as scratch:
            archive = Path(scratch) / "results.tgz"
            try:
                client.download(command.id, archive)
            except NotFound:
                self._lacks(command, command.collect, "brought nothing back")
                return
            except ServerProblem as refused:
                if refused.code != "not_kept":
                    raise
                self._lacks(command, command.collect, f"brought nothing back: {refused}")
                return
            unpacked = packing.unpack(archive, place)
        for name in unpacked.left_out:
            _say(command, f"left out {name}: it leads elsewhere")
        for path in unpacked.missing(command.collect):
            self._lacks(
                command, (path,), f"did not bring back {path}: there is no such path in its workspace"
            )
        if unpacked.names:
            self.places.append(str(place))

    def _lacks(self, command: "Command", paths: "Sequence[str]", words: str) -> None:
        _say(command, words)
        self.missing.extend({"ordinal": command.ordinal, "path": path} for path in paths)


def _say(command: "Command", words: str) -> None:
    from muster.cli import printing

    printing.remark("results", f"[{command.ordinal}] {words}")


def _summed_up(operation: "Operation", commands: "Sequence[Command]") -> None:
    from muster.cli import printing
    from muster.cli.durations import took

    good = sum(1 for command in commands if command.exit_status == 0)
    sign = "✔" if good == len(commands) else "✖"
    words = f"{sign} {good} of {len(commands)} succeeded in {took(operation.elapsed_seconds)}"
    printing.say(words, file=sys.stderr)
