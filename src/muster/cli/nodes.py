"""`muster nodes`: list nodes; show, diagnose or terminate one."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import charts, output
from muster.cli.connection import ask, calls, open_client
from muster.cli.options import duration_option, list_group, lists
from muster.domain import checks
from muster.domain.lifecycle import NodeState
from muster.domain.node import HOLD

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.nodes import Node

app = list_group("List nodes; show, diagnose or terminate one.")
_PAGE = 500
_HOLD = 1800.0
State = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only in this state, e.g. idle. May be repeated."),
]
TemplateName = Annotated[
    str | None, typer.Option("--template", "-t", metavar="NAME", help="Only of this template.")
]
NodeId = Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")]


@lists(app)
def listed(*, state: State = None, template: TemplateName = None) -> None:
    """List nodes. Terminated ones only with `--state terminated`."""
    _check(state or [])
    with open_client() as client:
        nodes = _all(client, state or [], template)
    columns: output.Columns[Node] = (
        output.Column("NODE", lambda node: node.id),
        output.Column("STATE", _state, style=output.state_style),
        output.Column("HEALTH", lambda node: node.health, style=output.state_style),
        output.Column("TEMPLATE", lambda node: node.template, cut=True),
        output.Column("CLASS", lambda node: node.resource_class),
        output.Column("RUN", lambda node: node.run, cut=True),
        output.Column("AGE", lambda node: output.age(node.created_at), right=True),
        output.Column("SEEN", lambda node: output.age(node.last_seen_at), right=True),
    )
    nothing = "no nodes: `muster provision --count 3` makes some"
    output.show_table({"items": nodes}, nodes, columns, nothing=nothing)


def _state(node: "Node") -> str:
    if node.deadline_source == HOLD:
        return f"{node.state} (held {output.time_left(node.deadline_at)})"
    return f"{node.state} (drain)" if node.drain else str(node.state)


def _check(states: list[str]) -> None:
    for state in states:
        checks.known("state", state, tuple(NodeState))


def _all(client: "SyncClient", state: list[str], template: str | None) -> "list[Node]":
    return list(
        client.items(lambda cursor: calls.nodes(state=state, template=template, cursor=cursor, limit=_PAGE))
    )


@app.command()
def show(node: NodeId) -> None:
    """Show a node: state, health, deadline, boot, events."""
    with open_client() as client:
        found = client.send(calls.node(node))
        boot = client.send(calls.boot(node))
    where = f"{found.template} (revision {found.revision}), {found.resource_class}, {found.usage_class}"
    drained = " (drain)" if found.drain else ""
    left = (
        f"{output.time_left(found.deadline_at)} left ({found.deadline_source})" if found.deadline_at else ""
    )
    output.show_facts(
        {**output.plain(found), "boot": output.plain(boot)},
        (
            ("node", found.id),
            ("state", f"{found.state}{drained}, for {output.age(found.entered_at)}"),
            ("reason", f"{found.reason}: {found.detail}" if found.detail else str(found.reason or "")),
            ("health", _health(found)),
            ("boot", "" if found.booted_at else " · ".join(filter(None, (found.phase, found.step)))),
            ("template", where),
            ("machine", f"{found.machine_id} on {found.provider} ({found.instance_type})"),
            ("address", found.address),
            ("run", found.run or ""),
            ("owner", found.owner or found.last_owner or ""),
            ("assignment", found.assignment_id or ""),
            ("operation", found.operation_id or ""),
            ("deadline", left),
            ("created", output.timestamp(found.created_at)),
            ("joined", output.timestamp(found.joined_at)),
            ("booted", output.timestamp(found.booted_at)),
            ("attached", output.timestamp(found.attached_at)),
            ("last seen", _last_seen(found)),
            ("timeline", "\n".join(charts.timeline(boot))),
        ),
    )


def _last_seen(node: "Node") -> str:
    if node.last_seen_at:
        return f"{output.age(node.last_seen_at)} ago"
    return "not kept any more" if node.state is NodeState.TERMINATED else "never"


def _health(node: "Node") -> str:
    if node.health is None:
        return ""
    why = f": {node.health_reason}" if node.health_reason else ""
    since = f", for {output.age(node.health_since)}" if node.health_since else ""
    return f"{node.health}{why} (by {node.health_source}){since}"


@app.command()
def diagnosis(node: NodeId) -> None:
    """Show why a node failed: the cause, the line that proves it, and the collected evidence."""
    found = ask(calls.diagnosis(node))
    proof = found.evidence
    output.show_facts(
        found,
        (
            ("node", found.node_id),
            ("cause", found.cause),
            ("why", found.summary),
            ("evidence", f"{proof.section} line {proof.line}: {proof.text}" if proof else ""),
            ("advice", found.advice),
            ("reason", f"{found.reason}: {found.detail}" if found.detail else str(found.reason or "")),
            ("collected", f"{output.age(found.collected_at)} ago"),
        ),
    )
    for section in () if output.wants_json() else found.sections:
        output.say(f"\n--- {section.name} ---")
        output.say(section.text or f"({section.missing})")


@app.command()
def hold(
    node: NodeId,
    *,
    seconds: Annotated[
        float | None,
        duration_option("--for", help="At most 1d. (default: 30m)"),
    ] = None,
) -> None:
    """Keep a failed node for a look with `muster shell`. It ends when the time is over."""
    found = ask(calls.hold(node, seconds or _HOLD))
    left = output.time_left(found.deadline_at)
    output.show(found, f"✔ {found.id} is kept for {left}: `muster shell {found.id}`")


@app.command()
def terminate(node: NodeId) -> None:
    """Terminate a node, even if a run uses it."""
    found = ask(calls.terminate(node))
    output.show(found, f"✔ {found.id} is {found.state}")
