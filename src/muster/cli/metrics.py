"""`muster metrics`: what to watch. List the server's metrics; print alert rules and a dashboard."""

import re
from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import open_client
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
def alerts(*, runbooks: Runbooks = "") -> None:
    """Print alert rules for Prometheus."""
    from muster.monitoring.alerts import ALERTS, render

    if output.wants_json():
        output.print_json({"items": ALERTS})
    else:
        output.say(render(runbooks).rstrip("\n"))


@app.command()
def dashboard() -> None:
    """Print a dashboard for Grafana: import it there, and choose your Prometheus."""
    from muster.monitoring.dashboard import render

    output.say(render().rstrip("\n"))
