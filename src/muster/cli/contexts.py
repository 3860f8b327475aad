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
    from muster.config.contexts import LOCAL, Context, ContextsFile

    contexts = ContextsFile(os.environ).read()
    document = {"current": contexts.current, "items": [_plain(each, contexts) for each in contexts.every]}
    local = Context(name=LOCAL, url="this machine's own server")
    columns: output.Columns[Context] = (
        output.Column(" ", lambda each: "*" if each.name == contexts.current else ""),
        output.Column("NAME", lambda each: each.name),
        output.Column("SERVER", lambda each: each.url, cut=True),
        output.Column("AS", lambda each: f"{each.person} ({each.role})" if each.person else "", cut=True),
        output.Column("LOGIN", lambda each: "" if each is local else _state(each)),
    )
    output.show_table(document, [local, *contexts.every], columns, nothing="")


@app.command()
def use(name: Name) -> None:
    """Use a context from now on. MUSTER_SERVER, MUSTER_CONTEXT and --context still count before it."""
    from muster.config.contexts import ContextsFile

    with ContextsFile(os.environ).changing() as held:
        held[0] = held[0].chosen(name)
    output.show({"current": name}, f"✔ context {name} is in use")


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
    facts = {**shown, "current": "yes" if shown["current"] else "no"}
    output.show_facts(shown, [(key, str(value)) for key, value in facts.items() if value is not None])


@app.command()
def remove(name: Name) -> None:
    """Forget a context and its token. Its login stays valid at the server: `muster logout` ends it."""
    from muster.config.contexts import ContextsFile

    with ContextsFile(os.environ).changing() as held:
        held[0] = held[0].without(name)
        current = held[0].current
    document = {"removed": name, "current": current}
    output.show(document, f"✔ context {name} is removed; {current} is in use")


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


def _state(context: "Context") -> str:
    if not context.token:
        return "logged out"
    if not context.expires_at:
        return "valid"
    left = time_left(datetime.fromisoformat(context.expires_at))
    return "expired" if left == "over" else f"valid for {left}"
