"""Define options that several commands share. Those of a provision make its request.

Also builds signatures from shared parts: groups that list, options kept in a dataclass.
"""

import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from muster.cli.connection import calls
from muster.cli.durations import parse_duration

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.domain.requests import ProvisionRequest
    from muster.domain.template import UsageClass

_DIGITS = 20
Command = TypeVar("Command", bound=Callable[..., None])


def whole_number(text: str | int) -> int:
    """Parse a whole number of reasonable length. The domain checks its range."""
    given = str(text).strip()
    number = given.removeprefix("-").isdecimal()
    if number and len(given) <= _DIGITS:
        return int(given)
    shown = given if len(given) <= _DIGITS else given[:_DIGITS] + "…"
    raise typer.BadParameter(f"{shown!r} is {'too large a number' if number else 'not a whole number'}")


def duration_option(*names: str, help: str) -> Any:  # noqa: A002 — as typer calls it
    return typer.Option(*names, parser=parse_duration, metavar="DURATION", help=help)


Argv = Annotated[list[str], typer.Argument(metavar="CMD", help="After `--`: a program, its arguments.")]
Count = Annotated[
    int, typer.Option("--count", "-n", parser=whole_number, metavar="NUMBER", help="How many nodes.")
]
Run = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="Your id for this piece of work. (default: generated)"),
]
TemplateName = Annotated[
    str | None,
    typer.Option(
        "--template", "-t", metavar="NAME", help="Which template. (default: `default`, or the only one)"
    ),
]
Class = Annotated[
    str | None, typer.Option("--class", metavar="NAME", help="A resource class, e.g. small or 2xlarge.")
]
Types = Annotated[
    list[str] | None,
    typer.Option("--types", metavar="PATTERNS", help="Instance types, e.g. 'c*,m5.large'. May be repeated."),
]
Usage = Annotated[
    list[str] | None,
    typer.Option(
        "--usage-class",
        metavar="CLASSES",
        help="on-demand or spot, or both in order of preference: spot,on-demand.",
    ),
]
MaxRuntime = Annotated[float | None, duration_option("--max-runtime", help="How long the run may last.")]
Timeout = Annotated[
    float | None, duration_option("--timeout", help="The deadline: ready by then, or it fails.")
]
WholeTimeout = Annotated[
    float | None,
    duration_option(
        "--timeout",
        help="The deadline of it all: over by then, or it is stopped. (default: boot + max runtime + 2m)",
    ),
]
QueueTimeout = Annotated[
    float | None,
    duration_option("--queue-timeout", help="How long to wait for room under the caps. (default: 0)"),
]
HoldOnFailure = Annotated[
    float | None,
    duration_option(
        "--hold-on-failure", help="Keep a node that failed for a look: `muster shell NODE`. At most 1d."
    ),
]
Owner = Annotated[
    str,
    typer.Option(
        "--owner", metavar="NAME", help="The trust domain, e.g. a repository: nodes are reused inside it."
    ),
]
Wait = Annotated[
    float | None,
    duration_option("--wait", help="How long to watch. The work continues after that. (default: to the end)"),
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Don't wait: print the operation and leave.")]


def _key(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise typer.BadParameter("must not be empty: an unset variable would protect nothing")
    return value


Key = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        callback=_key,
        help="The same key and request is the same operation, however often.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionOptions:
    """What a provision is asked for with."""

    count: Count = 1
    run: Run = None
    template: TemplateName = None
    resource_class: Class = None
    types: Types = None
    usage: Usage = None
    max_runtime: MaxRuntime = None
    timeout: Timeout = None
    queue_timeout: QueueTimeout = None
    hold_on_failure: HoldOnFailure = None
    owner: Owner = "default"

    def request(self, client: "SyncClient") -> "ProvisionRequest":
        """Return the request. Raises UsageProblem if it is not clear which template is meant."""
        from muster.domain.requests import ProvisionRequest

        request = ProvisionRequest(
            # Checked with a stand-in first: bad input needs no server to be refused.
            template=self.template if self.template is not None else "default",
            count=self.count,
            run=self.run if self.run is not None else f"run-{secrets.token_hex(4)}",
            owner=self.owner,
            resource_class=self.resource_class,
            usage=_usage(self.usage),
            instance_types=tuple(_words(self.types)) if self.types else None,
            max_runtime=self.max_runtime,
            timeout=self.timeout,
            queue_timeout=self.queue_timeout or 0.0,
            hold_on_failure=self.hold_on_failure,
        )
        return request if self.template is not None else _with_template(client, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(ProvisionOptions):
    """The same of a whole run."""

    timeout: WholeTimeout = None


def _with_template(client: "SyncClient", request: "ProvisionRequest") -> "ProvisionRequest":
    from muster.cli.exits import UsageProblem

    names = [template.name for template in client.send(calls.templates()) if not template.retired]
    if request.template in names:
        return request
    if len(names) == 1:
        return replace(request, template=names[0])
    listed = f"name one with --template: {', '.join(names)}" if names else "apply one with `muster apply`"
    raise UsageProblem(f"cannot choose a template: there is none called default; {listed}")


def _words(given: Sequence[str]) -> list[str]:
    return [word.strip() for each in given for word in each.split(",")]


def _usage(given: Sequence[str] | None) -> "tuple[UsageClass, ...] | None":
    from muster.domain import checks
    from muster.domain.template import UsageClass

    if not given:
        return None
    return tuple(UsageClass(checks.known("usage_class", word, tuple(UsageClass))) for word in _words(given))


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def confirm(what: str, *, yes: bool) -> None:
    """Ask for confirmation. Raises UsageProblem without a terminal, Abort for a no."""
    from muster.cli import output
    from muster.cli.exits import UsageProblem

    if yes:
        return
    if output.wants_json() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem(f"cannot ask without a terminal: {what} To confirm, repeat with --yes.")
    if not typer.confirm(f"{what} Go on?", err=True):
        raise typer.Abort


FILE = Path("muster.toml")
SettingsFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="The server's settings. (default: ./muster.toml, if there is one)"),
]


def find_settings_file(named: Path | None) -> Path | None:
    """Return the named file, else ./muster.toml if there is one, else None."""
    if named is None and FILE.is_file():
        return FILE
    return named


def list_group(words: str) -> typer.Typer:
    """Return a group of commands that runs its `list` without a subcommand. `lists` names that command."""
    return typer.Typer(help=words, invoke_without_command=True, add_completion=False)


def lists(group: typer.Typer) -> Callable[[Command], Command]:
    """Make a function the command `list` of a group, whose options the group itself takes too."""

    def register(command: Command) -> Command:
        def root(context: typer.Context, **given: Any) -> None:
            if context.invoked_subcommand is None:
                command(**given)

        context = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        _sign(root, Signature([context, *signature(command).parameters.values()]))
        group.callback()(root)
        group.command("list")(command)
        return command

    return register


def with_options(kind: type[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass, in place of its parameter of that type."""
    hints = get_type_hints(kind, include_extras=True)
    options = [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)  # type: ignore[arg-type]  # a dataclass
    ]

    def expand(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command).parameters.values()
        (place,) = (each.name for each in own if each.annotation is kind)

        @wraps(command)
        def expanded(**given: Any) -> None:
            asked = kind(**{each.name: given.pop(each.name) for each in options})
            command(**given, **{place: asked})

        nested = ([each] if each.name != place else options for each in own)
        _sign(expanded, Signature([each for some in nested for each in some]))
        return expanded

    return expand


def _sign(function: Callable[..., None], signed: Signature) -> None:
    function.__signature__ = signed  # type: ignore[attr-defined]  # what `inspect` and typer read
    function.__annotations__ = {each.name: each.annotation for each in signed.parameters.values()}
