"""`muster metrics`: what to watch. List the server's metrics; print alert rules and a dashboard."""

import re
from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls
from muster.cli.options import list_group, lists

app = list_group("List metrics; print alert rules and a dashboard.")
Runbooks = Annotated[
    str,
    typer.Option(
        "--runbooks", metavar="URL", help="Where your copy of docs/alerts.md is; each alert then links to it."
    ),
]
_HEAD = re.compile(r"^# (HELP|TYPE) (\S+) (.*)$", re.MULTILINE)


@lists(app)
def listed() -> None:
    """List the metrics of the server, each with its kind and meaning."""
    text = ask(calls.metrics())
    told: dict[str, dict[str, str]] = {}
    for what, name, words in _HEAD.findall(text):
        told.setdefault(name, {"name": name})["help" if what == "HELP" else "kind"] = words
    found = sorted(told.values(), key=lambda each: each["name"])
    columns: output.Columns[dict[str, str]] = (
        output.Column("METRIC", lambda each: each["name"]),
        output.Column("KIND", lambda each: each.get("kind")),
        output.Column("MEANING", lambda each: each.get("help"), cut=True),
    )
    output.show_table({"items": found}, found, columns, nothing="the server has no metrics")


@app.command()
def alerts(*, runbooks: Runbooks = "") -> None:
    """Print alert rules for Prometheus."""
    from muster.monitoring.alerts import ALERTS, render

    output.show({"items": ALERTS}, render(runbooks).rstrip("\n"))


@app.command()
def dashboard() -> None:
    """Print a dashboard for Grafana: import it there, and choose your Prometheus."""
    from muster.monitoring.dashboard import render

    output.say(render().rstrip("\n"))
