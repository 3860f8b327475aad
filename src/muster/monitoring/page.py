"""Render the alerts as docs/alerts.md, the runbooks (`python -m muster.monitoring.page`)."""

import sys

from muster.monitoring.alerts import ALERTS, Alert

HEAD = """# Alerts and their runbooks

Generated from `muster.monitoring.alerts` by `make alerts`; edit the alerts, not this page.

This page says what each alert means and what to do. Prometheus reads the rules, Grafana the dashboard:

```console
$ muster metrics alerts --runbooks https://docs.example.com/alerts/ > muster.rules.yml
$ muster metrics dashboard > muster-dashboard.json
$ muster metrics list                       # every metric of this server, with its meaning
```

| alert | severity | fires when |
|---|---|---|
"""


def render() -> str:
    rows = [
        f"| [{each.name}](#{each.name.lower()}) | {each.severity.value} | {each.cause} |" for each in ALERTS
    ]
    return HEAD + "\n".join(rows) + "\n" + "".join(_section(each) for each in ALERTS)


def _section(alert: Alert) -> str:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(alert.steps, start=1))
    rule = f"```\n{alert.expression}\n```"
    return f"\n## {alert.name}\n\n{alert.cause}\n\n{steps}\n\nThe rule, for {alert.lasting}:\n\n{rule}\n"


if __name__ == "__main__":
    sys.stdout.write(render())
