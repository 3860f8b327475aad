"""Build the signatures of commands from shared parts: groups that list, options kept in a dataclass."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, get_type_hints

import typer

Command = TypeVar("Command", bound=Callable[..., None])


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
