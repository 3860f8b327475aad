"""`muster templates`: list, show and retire templates."""

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import charts, output
from muster.cli.connection import ask, calls, open_client
from muster.cli.durations import format_rough
from muster.cli.options import list_group, lists
from muster.domain.template import CLUSTER, RESOURCE_CLASSES
from muster.domain.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.wire.templates import Template

app = list_group("List templates; show or retire one.")


@lists(app)
def listed(
    *,
    retired: Annotated[bool, typer.Option("--retired", help="Also retired templates.")] = False,
) -> None:
    """List the current revision of every template."""
    with open_client() as client:
        found = [each for each in client.send(calls.templates()) if retired or not each.retired]
    columns: output.Columns[Template] = (
        output.Column("TEMPLATE", lambda each: each.name, cut=True),
        output.Column("REV", lambda each: each.revision, right=True),
        output.Column("PROVIDER", lambda each: each.provider),
        output.Column("CLASS", lambda each: each.resource_class),
        output.Column("RUNTIME", lambda each: each.runtime),
        output.Column("REUSE", lambda each: each.reuse),
        output.Column("MIN", lambda each: each.min_idle, right=True),
        output.Column("MAX", lambda each: each.max_nodes, right=True),
        output.Column("PAUSED", lambda each: "retired" if each.retired else "yes" if each.paused else None),
    )
    nothing = "no templates: apply some with `muster apply`"
    output.show_table({"items": found}, found, columns, nothing=nothing)


@app.command()
def retire(name: Annotated[str, typer.Argument(metavar="TEMPLATE")]) -> None:
    """Stop giving out nodes of a template until it is applied again. Runs continue."""
    found = ask(calls.retire(name))
    told = "its warm nodes end, its runs continue; `muster apply` restores it"
    output.show(found, f"✔ {found.name} is retired: {told}")


def _tables(found: "Template") -> "Iterator[tuple[str, str]]":
    """Return the template's integration tables that differ from the defaults."""
    from muster.discovery import installed

    for table in installed().template_tables.values():
        usual = {each.name: each.default for each in fields(table.kind)}
        for key, value in (output.plain(getattr(found, table.name)) or {}).items():
            if value != output.plain(usual.get(key) if usual.get(key) is not MISSING else None):
                yield key.replace("_", " "), _said(value)


def _said(value: Any) -> str:
    """A list in one line, a list of tables in one line each."""
    match value:
        case [{}, *_]:
            return "\n".join(_said(each) for each in value)
        case dict():
            return " · ".join(_said(each) for each in value.values() if each not in (None, [], {}))
        case list():
            return ", ".join(_said(each) for each in value)
        case _:
            return str(value)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="TEMPLATE")]) -> None:
    """Show a template, and how long its boots take."""
    with open_client() as client:
        found = client.send(calls.template(name))
        boots = client.send(calls.boots(name))
    document = {**output.plain(found), "boots": output.plain(boots)}
    own = (
        ("template", f"{found.name}, revision {found.revision}{_mark(found)}"),
        ("applied", f"{output.age(found.applied_at)} ago"),
        ("provider", found.provider),
        *_tables(found),
    )
    if getattr(found, CLUSTER, None) is not None:
        output.show_facts(document, (*own, ("ready within", format_rough(boots.deadline.seconds))))
        return
    output.show_facts(
        document,
        (
            *own,
            ("class", _class(found)),
            ("runtime", str(found.runtime)),
            ("usage", ", then ".join(found.usage)),
            ("types", ", ".join(found.instance_types)),
            ("reuse", str(found.reuse)),
            ("nodes", f"{found.min_idle} kept warm, at most {found.max_nodes}"),
            ("replacements", str(found.replacements or "")),
            ("boot within", f"{format_rough(boots.deadline.seconds)} ({boots.deadline.source})"),
            ("if it advances", f"extended to {format_rough(boots.ceiling_seconds)} at most"),
            ("stalls after", "" if found.stall_after is None else format_rough(found.stall_after)),
            ("learns", "" if found.learn else "no: its deadline is never lengthened by past boots"),
            ("attach within", "" if found.attach_timeout is None else format_rough(found.attach_timeout)),
            ("max runtime", format_rough(found.max_runtime)),
            ("idle timeout", format_rough(found.idle_timeout)),
            ("boots", "\n".join(line for kind in boots.kinds for line in charts.boots(kind))),
            ("boot script", found.boot_script.rstrip()),
        ),
    )


def _mark(found: "Template") -> str:
    return ", retired" if found.retired else ", paused" if found.paused else ""


def _class(found: "Template") -> str:
    own = {each.name: each for each in found.classes}
    size = own.get(found.resource_class) or RESOURCE_CLASSES[found.resource_class]
    return f"{size.name} ({counted(size.cpu, 'processor')}, {size.memory_mib} MiB)"
