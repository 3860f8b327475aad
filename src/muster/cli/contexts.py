"""`muster contexts`: list the servers that you logged in to, show one, choose one, remove one."""

import os
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import output
from muster.cli.options import list_group, lists
from muster.cli.output import time_left

if TYPE_CHECKING:
    from muster.config.contexts import Context, Contexts

app = list_group("List the servers that you logged in to; choose one.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="As listed; `local` is this machine's own server.")]


@lists(app)
def listed() -> None:
    """List contexts. The one in use has a star."""
    from muster.config.contexts import LOCAL, ContextsFile

    contexts = ContextsFile(os.environ).read()
    if output.wants_json():
        items = [_plain(each, contexts) for each in contexts.every]
        output.print_json({"current": contexts.current, "items": items})
        return
    columns = (
        output.Column(" "),
        output.Column("NAME"),
        output.Column("SERVER", cut=True),
        output.Column("AS", cut=True),
        output.Column("LOGIN"),
    )
    local = (_star(contexts, LOCAL), LOCAL, "this machine's own server", "", "")
    rows = [
        (_star(contexts, each.name), each.name, each.url, _person(each), _state(each))
        for each in contexts.every
    ]
    output.table(columns, [local, *rows], nothing="")


@app.command()
def use(name: Name) -> None:
    """Use a context from now on. MUSTER_SERVER, MUSTER_CONTEXT and --context still count before it."""
    from muster.config.contexts import ContextsFile

    with ContextsFile(os.environ).changing() as held:
        held[0] = held[0].chosen(name)
    if output.wants_json():
        output.print_json({"current": name})
    else:
        output.say(f"✔ context {name} is in use")


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="(default: the one in use)")] = None,
) -> None:
    """Show a context, without its secret."""
    from muster.config import find_server
    from muster.config.contexts import LOCAL, ContextsFile

    contexts = ContextsFile(os.environ).read()
    wanted = name or os.environ.get("MUSTER_CONTEXT") or contexts.current
    if wanted == LOCAL:
        found = find_server({**os.environ, "MUSTER_CONTEXT": LOCAL})
        shown: dict[str, Any] = {"name": LOCAL, "server": found.url, "current": contexts.current == LOCAL}
    else:
        shown = _plain(contexts.find(wanted), contexts)
    if output.wants_json():
        output.print_json(shown)
    else:
        shown["current"] = "yes" if shown["current"] else "no"
        output.print_facts([(key, str(value)) for key, value in shown.items() if value is not None])


@app.command()
def remove(name: Name) -> None:
    """Forget a context and its token. Its login stays valid at the server: `muster logout` ends it."""
    from muster.config.contexts import ContextsFile

    with ContextsFile(os.environ).changing() as held:
        held[0] = held[0].without(name)
        current = held[0].current
    if output.wants_json():
        output.print_json({"removed": name, "current": current})
    else:
        output.say(f"✔ context {name} is removed; {current} is in use")


def _plain(context: "Context", contexts: "Contexts") -> dict[str, Any]:
    return {
        "name": context.name,
        "server": context.url,
        "current": context.name == contexts.current,
        "person": context.person,
        "role": context.role,
        "login": _state(context),
        "expires_at": context.expires_at or None,
        "ca_file": context.ca_file or None,
    }


def _star(contexts: "Contexts", name: str) -> str:
    return "*" if contexts.current == name else ""


def _person(context: "Context") -> str:
    return f"{context.person} ({context.role})" if context.person else ""


def _state(context: "Context") -> str:
    if not context.token:
        return "logged out"
    if not context.expires_at:
        return "valid"
    left = time_left(datetime.fromisoformat(context.expires_at))
    return "expired" if left == "over" else f"valid for {left}"
