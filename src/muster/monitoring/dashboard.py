"""Write a dashboard for Grafana: a few rows of panels, each a question that an operator asks."""

import json
from dataclasses import dataclass
from typing import Any

UID = "muster-overview"
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    queries: tuple[tuple[str, str], ...]
    """The expression, and the legend of its lines."""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket[$__rate_interval])))", name)
        for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    )


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _shared(metric: str, label: str) -> tuple[str, str]:
    """Return a gauge that every server of a shared store tells alike."""
    return f"max by ({label}) ({metric})", f"{{{{{label}}}}}"


NODES = "max by (template, state) (muster_nodes)"
FAILURES = "max by (cause, template, revision) (muster_failures_hour)"
CAP = ("max(muster_nodes_max)", "cap")
PROVIDER_CALLS = _rate("muster_provider_seconds_bucket", "le, provider")
ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Now",
        (
            Panel(title="Verdict", queries=(_shared("muster_verdict", "code"),), kind="stat", width=6),
            Panel(
                title="Nodes in use",
                queries=((f"sum({NODES})", "used"), CAP),
                kind="stat",
                width=6,
            ),
            Panel(
                title="Operations that wait for room",
                queries=(("max(muster_queue_length)", "waiting"),),
                kind="stat",
                width=6,
            ),
            Panel(
                title="Machines that can't be ended",
                queries=(("max(muster_nodes_needing_attention)", "machines"),),
                kind="stat",
                width=6,
            ),
        ),
    ),
    (
        "Pools",
        (
            Panel(
                title="Nodes by state",
                queries=((f"sum by (state) ({NODES})", "{{state}}"), CAP),
                width=12,
                stacked=True,
            ),
            Panel(
                title="Nodes by template",
                queries=((f"sum by (template) ({NODES})", "{{template}}"),),
                width=12,
                stacked=True,
            ),
            Panel(
                title="Handed over per second: warm and new",
                queries=((_rate("muster_nodes_handed_over_total", "source"), "{{source}}"),),
                unit="ops",
            ),
            Panel(title="Health of nodes", queries=(_shared("muster_nodes_health", "health"),), stacked=True),
            Panel(title="Why operations wait", queries=(_shared("muster_waiting", "reason"),), stacked=True),
        ),
    ),
    (
        "How long it takes",
        (
            Panel(title="Request to ready", queries=_quantiles("muster_ready_seconds"), unit="s"),
            Panel(title="Boot", queries=_quantiles("muster_boot_seconds"), unit="s"),
            Panel(title="Attach", queries=_quantiles("muster_attach_seconds"), unit="s"),
            Panel(title="Launch calls", queries=_quantiles("muster_launch_seconds"), unit="s"),
            Panel(title="Store calls", queries=_quantiles("muster_store_seconds"), unit="s"),
            Panel(
                title="Provider calls, p95",
                queries=((f"histogram_quantile(0.95, {PROVIDER_CALLS})", "{{provider}}"),),
                unit="s",
            ),
        ),
    ),
    (
        "What fails",
        (
            Panel(
                title="Operations that ended, per second",
                queries=((_rate("muster_operations_ended_total", "kind, status"), "{{kind}} {{status}}"),),
                unit="ops",
            ),
            Panel(
                title="Failures of the last hour",
                queries=((f"sum by (cause, template) ({FAILURES})", "{{template}} {{cause}}"),),
            ),
            Panel(
                title="Provider errors per second",
                queries=(
                    (_rate("muster_provider_errors_total", "provider, error"), "{{provider}} {{error}}"),
                ),
                unit="ops",
            ),
        ),
    ),
    (
        "CI jobs",
        (
            Panel(title="Jobs", queries=(_shared("muster_jobs", "state"),), stacked=True),
            Panel(title="Queued to running", queries=_quantiles("muster_job_wait_seconds"), unit="s"),
            Panel(title="Jobs that are not served", queries=(_shared("muster_jobs_unserved", "cause"),)),
        ),
    ),
    (
        "Muster itself",
        (
            Panel(
                title="Seconds since each duty began",
                queries=(_shared("muster_duty_age_seconds", "duty"),),
                unit="s",
            ),
            Panel(
                title="Heartbeats per second",
                queries=(("rate(muster_heartbeats_total[$__rate_interval])", "{{instance}}"),),
                unit="ops",
            ),
            Panel(
                title="Requests of agents per second",
                queries=((_rate("muster_agent_requests_total", "what"), "{{what}}"),),
                unit="ops",
            ),
        ),
    ),
)


def render() -> str:
    """Return the dashboard as Grafana imports it; it asks for the data source."""
    made = {
        "uid": UID,
        "title": "Muster",
        "tags": ["muster"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": _panels(),
    }
    return json.dumps(made, indent=2) + "\n"


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for title, panels in ROWS:
        found.append({"id": len(found) + 1, "type": "row", "title": title, "gridPos": _place(0, y, WIDTH, 1)})
        y, x = y + 1, 0
        height = 4 if all(panel.kind == "stat" for panel in panels) else 8
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            found.append(
                {"id": len(found) + 1, **_panel(panel), "gridPos": _place(x, y, panel.width, height)}
            )
            x += panel.width
        y += height
    return found


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.stacked:
        defaults["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 30}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"textMode": "value_and_name"} if panel.kind == "stat" else {},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}
