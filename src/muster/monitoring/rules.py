"""Write the alerts as a rule file of Prometheus."""

import json
from collections.abc import Iterator

from muster.monitoring.alerts import ALERTS, Alert


def render(runbooks: str = "") -> str:
    """Return the file as YAML. `runbooks`: the address of the runbooks' page; empty: no links."""
    lines = ["groups:", "  - name: muster", "    rules:"]
    for alert in ALERTS:
        lines += _rule(alert, runbooks)
    return "\n".join(lines) + "\n"


def anchor(alert: Alert) -> str:
    return alert.name.lower()


def _rule(alert: Alert, runbooks: str) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield f"        expr: {_quoted(alert.expression)}"
    yield f"        for: {alert.lasting}"
    yield "        labels:"
    yield f"          severity: {alert.severity.value}"
    yield "        annotations:"
    yield f"          summary: {_quoted(alert.summary)}"
    yield f"          description: {_quoted(f'{alert.cause} {alert.steps[0]}')}"
    if runbooks:
        yield f"          runbook_url: {_quoted(f'{runbooks}#{anchor(alert)}')}"


def _quoted(text: str) -> str:
    """Return the text in double quotes, which YAML reads as JSON does."""
    return json.dumps(text, ensure_ascii=False)
