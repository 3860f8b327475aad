"""`muster exec`: run one command on the nodes of a run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import command_output, options, output
from muster.cli import stdin as given
from muster.cli.command_output import print_failures, worst_exit_code
from muster.cli.connection import calls, is_operation, open_client
from muster.cli.durations import parse_duration
from muster.cli.operation_watch import Patience, detachable
from muster.cli.output import Raw, plain
from muster.cli.stdin import Stdin
from muster.domain.command import Execution

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.commands import Command

NAME = "execute"


def execute(
    target: Annotated[str, typer.Argument(metavar="RUN|OPERATION", help="A run, or its provision's id.")],
    command: options.Argv,
    *,
    index: Annotated[
        list[int] | None,
        typer.Option("--index", metavar="N", help="Only on node N, as in `[N] …`. May be repeated."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", parser=parse_duration, metavar="DURATION", help="End the command after this time."
        ),
    ] = None,
    stdin: Stdin = False,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
    _raw: Raw = False,
) -> None:
    """Run a command on every node of a run, and show its output line by line: `[0] …`.

    MUSTER_RUN, MUSTER_INDEX, MUSTER_COUNT and MUSTER_NODE tell each copy which one it is. The exit code is
    the worst of them.
    """
    named = is_operation(target)
    if not stdin:
        given.refuse_unread()
    with open_client() as client:
        execution = Execution(
            argv=tuple(command),
            timeout=timeout,
            stdin=given.upload_stdin(client) if stdin else None,
        )
        call = calls.execute(
            execution,
            operation_id=target if named else None,
            run=None if named else target,
            indexes=index or (),
            key=key,
        )
        made, code = client.send(call), 0
        if detach and output.wants_json():
            output.print_json(made)
        elif detach:
            for each in made:
                output.say(each.id)
            output.say(f"  {_again(made)}")
        else:
            code = _watched(client, made, wait)
    if not stdin:
        given.tell_unread()
    raise typer.Exit(code)


def _again(commands: Sequence["Command"]) -> str:
    target = commands[0].id if len(commands) == 1 else commands[0].operation_id
    return f"see its output with `muster logs -f {target}`, or stop it with `muster commands cancel {target}`"


def _watched(client: "SyncClient", commands: Sequence["Command"], wait: float | None) -> int:
    how, patience, outputs = _again(commands), Patience(wait), None
    with detachable(how):
        if output.wants_json():
            outputs = command_output.collect_output(client, commands, patience, how=how)
        else:
            command_output.print_output(client, commands, patience, how=how)
        ended = [client.send(calls.command(each.id)) for each in commands]
    if outputs is not None:
        output.print_json(
            {
                "exit_code": worst_exit_code(ended),
                "commands": [{**plain(each), "output": outputs[each.ordinal]} for each in ended],
            }
        )
    else:
        print_failures(ended)
    return worst_exit_code(ended)
