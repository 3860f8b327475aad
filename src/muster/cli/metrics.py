"""`muster metrics`: what to watch. List the server's metrics; print alert rules and a dashboard."""

import re
from typing import Annotated

import typer

from muster.cli.output import Output

app = typer.Typer(
    help="List metrics; print alert rules and a dashboard.",
    invoke_without_command=True,
    add_completion=False,
)
Runbooks = Annotated[
    str,
    typer.Option(
        "--runbooks", metavar="URL", help="Where your copy of docs/alerts.md is; each alert then links to it."
    ),
]
_HEAD = re.compile(r"^# (HELP|TYPE) (\S+) (.*)$", re.MULTILINE)


@app.callback()
def root(context: typer.Context, *, _output: Output = None) -> None:
    """List metrics; print alert rules and a dashboard. Without a subcommand: list."""
    if context.invoked_subcommand is None:
        _list()


@app.command("list")
def listed(*, _output: Output = None) -> None:
    """List the metrics of the server, each with its kind and meaning."""
    _list()


def _list() -> None:
    from muster.cli import output
    from muster.cli.connection import open_client
    from muster.client import calls

    with open_client() as client:
        text = client.send(calls.metrics())
    told: dict[str, dict[str, str]] = {}
    for what, name, words in _HEAD.findall(text):
        told.setdefault(name, {"name": name})["help" if what == "HELP" else "kind"] = words
    found = sorted(told.values(), key=lambda each: each["name"])
    if output.wants_json():
        output.print_json({"items": found})
        return
    columns = (output.Column("METRIC"), output.Column("KIND"), output.Column("MEANING", cut=True))
    rows = [(each["name"], each.get("kind", "-"), each.get("help", "-")) for each in found]
    output.table(columns, rows, nothing="the server has no metrics")


@app.command()
def alerts(*, runbooks: Runbooks = "", _output: Output = None) -> None:
    """Print alert rules for Prometheus."""
    from muster.cli import output
    from muster.monitoring.alerts import ALERTS, render

    if output.wants_json():
        output.print_json({"items": ALERTS})
    else:
        output.say(render(runbooks).rstrip("\n"))


@app.command()
def dashboard(*, _output: Output = None) -> None:
    """Print a dashboard for Grafana: import it there, and choose your Prometheus."""
    from muster.cli import output
    from muster.monitoring.dashboard import render

    output.say(render().rstrip("\n"))
