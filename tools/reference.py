"""`python -m tools.reference PAGE`: print a page of docs/ that is generated from tables of the code."""

import sys
from collections.abc import Callable, Mapping

from muster.api import codes_page
from muster.domain.codes import PAGE
from muster.domain.lifecycle import EDGES, MEANING, NodeState
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


def lifecycle() -> str:
    lines = [
        "# A node's life",
        "",
        "This page lists the states of a node, the verbs that change them, and their callers.",
        "",
        "```console",
        "$ muster nodes                  # every node with its state",
        "$ muster events --of NODE       # how a node came to its state",
        "```",
        "",
        "Generated from `muster.domain.lifecycle` by `make lifecycle`; edit the table, not this page.",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {MEANING[state]} |" for state in NodeState),
        "",
        "| verb | from | to | called by | when |",
        "|---|---|---|---|---|",
        *(
            f"| {edge.verb} | {edge.source or '∅'} | {edge.target} | {', '.join(edge.callers)}"
            f" | {edge.when} |"
            for edge in EDGES
        ),
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(
            f"  {edge.source or '[*]'} --> {edge.target}: {edge.verb}"
            for edge in EDGES
            if edge.source is not edge.target
        ),
        "  terminated --> [*]",
        "```",
    ]
    return "\n".join(lines) + "\n"


def codes() -> str:
    lines = [
        f"# {codes_page.TITLE}",
        "",
        "Generated from `muster.domain.codes` by `make codes`; edit the tables, not this page.",
        "",
        f"{codes_page.WHAT} A server shows this page at `{PAGE}`.",
        "",
        "```console",
        "$ muster operations why ID      # why an operation waits or ended",
        "```",
    ]
    for title, what, rows in codes_page.anchored():
        lines += ["", f"## {title}", "", what, "", "| code | cause | what to do |", "|---|---|---|"]
        lines += [f"| {anchor}`{row.code}` | {row.cause} | {row.cure} |" for row, anchor in rows]
    return "\n".join(lines) + "\n"


def alerts() -> str:
    rows = [
        f"| [{each.name}](#{each.name.lower()}) | {each.severity.value} | {each.cause} |" for each in ALERTS
    ]
    return HEAD + "\n".join(rows) + "\n" + "".join(_section(each) for each in ALERTS)


def _section(alert: Alert) -> str:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(alert.steps, start=1))
    rule = f"```\n{alert.expression}\n```"
    return f"\n## {alert.name}\n\n{alert.cause}\n\n{steps}\n\nThe rule, for {alert.lasting}:\n\n{rule}\n"


PAGES: Mapping[str, Callable[[], str]] = {"alerts": alerts, "codes": codes, "lifecycle": lifecycle}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
