"""`muster clusters`: create, list, show and delete clusters."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import options, output
from muster.cli.connection import ask, calls, open_client
from muster.cli.durations import format_taken
from muster.cli.operation_watch import finish_or_detach
from muster.cli.options import list_group, lists
from muster.cli.output import say
from muster.cli.progress_views import LOOKS, heading, time_left_text
from muster.domain import checks
from muster.domain.cluster import ClusterState
from muster.domain.operation import Kind, Status
from muster.domain.requests import ClusterCreateRequest

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.clusters import Cluster, ClusterDetail
    from muster.wire.operations import Operation

app = list_group("List clusters; create, show or delete one.")
_PAGE = 500
State = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only in this state, e.g. ready. May be repeated."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The cluster's name; its id works too.")]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called, at its provider too.")]
TemplateName = Annotated[
    str, typer.Option("--template", "-t", metavar="NAME", help="A template whose provider makes clusters.")
]


@lists(app)
def listed(*, state: State = None) -> None:
    """List clusters. Deleted ones only with `--state deleted`."""
    for each in state or ():
        checks.known("state", each, tuple(ClusterState))
    with open_client() as client:
        found = _all(client, state or [])
    columns: output.Columns[Cluster] = (
        output.Column("CLUSTER", lambda each: each.name, cut=True),
        output.Column("STATE", lambda each: each.state, style=output.state_style),
        output.Column("TEMPLATE", lambda each: each.template, cut=True),
        output.Column("REGION", lambda each: each.region),
        output.Column("GROUP", lambda each: each.group, cut=True),
        output.Column("NODES", lambda each: each.nodes, right=True),
        output.Column("VERSION", lambda each: each.kubernetes_version),
        output.Column("AGE", lambda each: output.age(each.created_at), right=True),
    )
    nothing = "no clusters: `muster clusters create NAME -t TEMPLATE` makes one"
    output.show_table({"items": found}, found, columns, nothing=nothing)


def _all(client: "SyncClient", state: list[str]) -> "list[Cluster]":
    return list(client.items(lambda cursor: calls.clusters(state=state, cursor=cursor, limit=_PAGE)))


@app.command()
def create(
    name: NewName,
    *,
    template: TemplateName,
    timeout: options.Timeout = None,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
) -> None:
    """Create a cluster and watch it: steps, node pools, the provider's state. Ctrl-C leaves it running.

    Asking again for one that is being made watches that. `muster operations cancel` stops it and removes all
    that was made.
    """
    # Checked here too: a bad name needs no server to be refused.
    request = ClusterCreateRequest(name=name, template=template, timeout=timeout)
    with open_client() as client:
        call = calls.create_cluster(request.name, request.template, timeout=request.timeout, key=key)
        operation = client.send(call)
        finish_or_detach(client, operation, wait=wait, detach=detach, done=lambda ended: _ready(ended, name))


def _ready(operation: "Operation", name: str) -> None:
    say(f"✔ cluster {name} is ready ({format_taken(operation.elapsed_seconds)})")
    if operation.result:
        say(f"  {operation.result}")
    if operation.detail.console_url:
        say(f"  {operation.detail.console_url}")
    say(f"  delete it: muster clusters delete {name}")


@app.command()
def show(name: Name) -> None:
    """Show a cluster, and the progress of work on it."""
    found = ask(calls.cluster(name))
    spec = found.spec
    roles = "\n".join(f"{each.role} on {each.scope}" for each in spec.roles)
    output.show_facts(
        found,
        (
            ("cluster", f"{found.name} ({found.id})"),
            ("state", str(found.state)),
            ("reason", f"{found.reason}: {found.detail}" if found.reason else found.detail),
            ("template", f"{found.template} (revision {found.revision})"),
            ("region", found.region),
            ("group", f"{found.group} in {found.account}"),
            ("version", found.kubernetes_version or spec.kubernetes_version or ""),
            ("address", found.fqdn),
            ("pools", _pools(found)),
            ("roles", roles),
            ("created", f"{output.timestamp(found.created_at)} ({output.age(found.created_at)} ago)"),
            ("ready", output.timestamp(found.ready_at)),
            ("work", _work(found)),
            ("console", found.console_url),
        ),
    )


def _pools(found: "ClusterDetail") -> str:
    work = found.operation
    seen = {part.id: part for part in work.parts} if work is not None else {}
    lines = []
    for pool in found.spec.pools:
        part = seen.get(pool.name)
        state = f"{LOOKS[part.tone][0]} {part.state} · " if part is not None else ""
        lines.append(f"{pool.name}  {state}{pool.mode} · {pool.count} × {pool.vm_size}")
    return "\n".join(lines)


def _work(found: "ClusterDetail") -> str:
    work = found.operation
    if work is None:
        return ""
    if work.ended:
        return f"{work.operation_id} {work.status}"
    said = heading(work, work.elapsed_seconds, message=True) + time_left_text(work.eta_seconds)
    return f"{said}\nwatch it: muster operations watch {work.operation_id}"


@app.command()
def delete(
    name: Name,
    *,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
) -> None:
    """Delete a cluster and its role assignments.

    The group that it is in goes too, if Muster made it and nothing else is in it. A cluster that is still
    being made is cancelled, and all that was made so far is removed.
    """
    with open_client() as client:
        operation = client.send(calls.delete_cluster(name, key=key))
        cancelling = operation.kind is Kind.CLUSTER_CREATE
        finish_or_detach(
            client,
            operation,
            wait=wait,
            detach=detach,
            done=lambda ended: _gone(ended, name),
            good=(Status.CANCELLED,) if cancelling else (Status.SUCCEEDED,),
        )


def _gone(operation: "Operation", name: str) -> None:
    say(f"✔ cluster {name} is gone ({format_taken(operation.elapsed_seconds)})")
    if operation.result:
        say(f"  {operation.result}")
