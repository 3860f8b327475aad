"""What to watch: the server's metrics, alert rules for Prometheus and a dashboard for Grafana."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import pytest

from muster.api.prometheus import MILLISECONDS, SECONDS
from muster.monitoring.alerts import ALERTS, Alert, render
from muster.monitoring.dashboard import ROWS
from tests.cli.terminal import Terminal
from tools import promtool, reference

ROOT = Path(__file__).parents[2]
LASTING = 120
"""Minutes of each scene. Each rule must have held for its time before they are over."""


def slower_than(limit: float, name: str, edges: Sequence[float]) -> Mapping[str, str]:
    """A histogram of the server's own edges. All values are between the limit and the next edge."""
    return {
        f'{name}_bucket{{le="{edge:g}"}}': "0x120" if edge <= limit else "0+9x120" for edge in (*edges, inf)
    }


def up_to(limit: float, name: str, edges: Sequence[float]) -> Mapping[str, str]:
    """The same, with all values between the edge before the limit and the limit."""
    return {
        f'{name}_bucket{{le="{edge:g}"}}': "0x120" if edge < limit else "0+9x120" for edge in (*edges, inf)
    }


SCENES: Mapping[str, tuple[Mapping[str, str], float, int]] = {
    "MusterDown": ({'up{job="muster"}': "0x120"}, 0, 2),
    "MusterVerdict": ({'muster_verdict{code="store_slow",culprit="store",tone="danger"}': "1x120"}, 1, 1),
    "MusterDutyOverdue": (
        {
            'muster_duty_age_seconds{duty="pool"}': "300x120",
            'muster_duty_interval_seconds{duty="pool"}': "10x120",
        },
        270,
        1,
    ),
    "MusterStoreSlow": (slower_than(0.25, "muster_store_seconds", MILLISECONDS), 1.0, 1),
    "MusterMachinesResist": ({"muster_nodes_needing_attention": "2x120"}, 2, 1),
    "MusterOrphans": ({"muster_orphans_total": "0x100 1x20"}, 2, 1),
    "MusterProvisionsFail": (
        {
            'muster_operations_ended_total{kind="provision",status="failed"}': "0+3x120",
            'muster_operations_ended_total{kind="provision",status="succeeded"}': "0+7x120",
        },
        0.3,
        1,
    ),
    "MusterQueueOld": ({"muster_queue_oldest_seconds": "700x120"}, 700, 1),
    "MusterCapNear": (
        {
            'muster_nodes{template="ci",state="running"}': "60x120",
            'muster_nodes{template="web",state="running"}': "40x120",
            "muster_nodes_max": "100x120",
        },
        1.0,
        1,
    ),
    "MusterNodesSilent": (
        {
            "muster_nodes_stale": "20x120",
            'muster_nodes_health{health="offline"}': "20x120",
            'muster_nodes_health{health="ready"}': "80x120",
        },
        0.2,
        1,
    ),
    "MusterBootsSlow": (slower_than(600, "muster_boot_seconds", SECONDS), 1680, 1),
    "MusterProviderErrors": (
        {
            'muster_provider_errors_total{provider="ec2",verb="launch",error="Refused"}': "0+3x120",
            'muster_provider_seconds_count{provider="ec2",verb="launch"}': "0+10x120",
        },
        0.3,
        1,
    ),
    "MusterWebhooksUndelivered": (
        {
            'muster_webhook_undelivered{webhook="chat",state="waiting"}': "2x120",
            'muster_webhook_undelivered{webhook="chat",state="given_up"}': "1x120",
        },
        3,
        1,
    ),
    "MusterJobsUnserved": ({'muster_jobs_unserved{cause="no_template"}': "3x120"}, 3, 1),
}
"""What each of two servers on one store shows, the figure that the alert names, and how many alerts fire."""
CALM: Mapping[str, Mapping[str, str]] = {
    "MusterDown": {'up{job="muster"}': "1x120", 'up{job="other"}': "0x120"},
    "MusterVerdict": {
        'muster_verdict{code="paused",culprit="operator",tone="warning"}': "1x120",
        'muster_verdict{code="store_slow",culprit="store",tone="danger"}': "0x120",
    },
    "MusterDutyOverdue": {
        'muster_duty_age_seconds{duty="pool"}': "150x120",
        'muster_duty_interval_seconds{duty="pool"}': "10x120",
    },
    "MusterStoreSlow": up_to(0.25, "muster_store_seconds", MILLISECONDS),
    "MusterMachinesResist": {"muster_nodes_needing_attention": "0x120"},
    "MusterOrphans": {"muster_orphans_total": "3x120"},
    "MusterProvisionsFail": {
        'muster_operations_ended_total{kind="provision",status="failed"}': "0+19x120",
        'muster_operations_ended_total{kind="provision",status="succeeded"}': "0+81x120",
        'muster_operations_ended_total{kind="run",status="failed"}': "0+99x120",
    },
    "MusterQueueOld": {"muster_queue_oldest_seconds": "600x120"},
    "MusterCapNear": {
        'muster_nodes{template="ci",state="running"}': "90x120",
        "muster_nodes_max": "100x120",
    },
    "MusterNodesSilent": {
        "muster_nodes_stale": "10x120",
        'muster_nodes_health{health="offline"}': "10x120",
        'muster_nodes_health{health="ready"}': "90x120",
    },
    "MusterBootsSlow": up_to(600, "muster_boot_seconds", SECONDS),
    "MusterProviderErrors": {
        'muster_provider_errors_total{provider="ec2",verb="launch",error="Refused"}': "0+19x120",
        'muster_provider_seconds_count{provider="ec2",verb="launch"}': "0+100x120",
    },
    "MusterWebhooksUndelivered": {'muster_webhook_undelivered{webhook="chat",state="waiting"}': "0x120"},
    "MusterJobsUnserved": {'muster_jobs_unserved{cause="no_template"}': "0x120"},
}
"""What each of two servers shows while all is well, as near to the limit as may be."""
_NAME = re.compile(r"\b((?:muster|gha)_[a-z_]+?)(?:_bucket|_count|_sum)?\b(?!_)")


def test_every_metric_of_the_server_is_listed_with_its_meaning(terminal: Terminal) -> None:
    answer = terminal.muster("metrics", "list", "--output", "json")
    assert answer.code == 0, answer.err
    found = {each["name"]: each for each in json.loads(answer.out)["items"]}
    assert found["muster_nodes"] == {
        "name": "muster_nodes",
        "kind": "gauge",
        "help": "Nodes by template and state.",
    }
    assert all(each["help"] and each["kind"] for each in found.values())
    text = terminal.muster("metrics", "list")
    assert "muster_ready_seconds" in text.out


def test_alerts_and_panels_ask_for_metrics_that_there_are(terminal: Terminal) -> None:
    listed = json.loads(terminal.muster("metrics", "list", "--output", "json").out)["items"]
    known = {each["name"] for each in listed}
    asked = [alert.expression for alert in ALERTS]
    asked += [query for _, panels in ROWS for panel in panels for query, _ in panel.queries]
    named = {name for text in asked for name in _NAME.findall(text)}
    assert named - known == set()


def test_each_alert_links_to_its_runbook(alone: Terminal) -> None:
    printed = alone.muster("metrics", "alerts", "--runbooks", "https://docs.example/alerts").out
    runbooks = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        assert f"https://docs.example/alerts#{alert.name.lower()}" in printed
        assert f"\n## {alert.name}\n" in runbooks
    assert "runbook_url" not in render()


def test_the_page_of_runbooks_is_current() -> None:
    assert (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8") == reference.alerts(), "make alerts"


def test_the_dashboard_is_json_whose_panels_do_not_overlap(alone: Terminal) -> None:
    board = json.loads(alone.muster("metrics", "dashboard").out)
    places = [each["gridPos"] for each in board["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({each["id"] for each in board["panels"]}) == len(board["panels"])


@pytest.mark.skipif(promtool.path() is None, reason=promtool.HINT)
def test_prometheus_accepts_the_rules_and_the_metrics(terminal: Terminal, tmp_path: Path) -> None:
    program = promtool.path()
    assert program is not None
    rules = tmp_path / "muster.rules.yml"
    rules.write_text(render("https://docs.example/alerts"), encoding="utf-8")
    done = subprocess.run([program, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def seen_at(server: str, series: str) -> str:
    """The series with the labels that Prometheus gives to a target."""
    name, _, labels = series.rstrip("}").partition("{")
    target = f'instance="{server}:8420"' + ("" if "job=" in labels else ',job="muster"')
    return f"{name}{{{labels}{',' * bool(labels)}{target}}}"


@pytest.mark.skipif(promtool.path() is None, reason=promtool.HINT)
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_fires_once_for_two_servers_of_one_store(alert: Alert, tmp_path: Path) -> None:
    shown, figure, count = SCENES[alert.name]
    begins = next((int(minutes) for text in shown.values() for minutes in re.findall(r"x(\d+) ", text)), 0)
    holds = int(alert.lasting.removesuffix("m"))
    played(
        tmp_path,
        shown,
        (f"max(round({alert.expression}, 0.1))", LASTING, [{"labels": "{}", "value": figure}]),
        (FIRING, max(begins, holds - 1), []),
        (FIRING, LASTING, [{"labels": f'{{alertname="{alert.name}"}}', "value": count}]),
    )


@pytest.mark.skipif(promtool.path() is None, reason=promtool.HINT)
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_is_silent_up_to_its_limit(alert: Alert, tmp_path: Path) -> None:
    played(tmp_path, CALM[alert.name], *((FIRING, minute, []) for minute in range(1, LASTING, 7)))


FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def played(place: Path, shown: Mapping[str, str], *expected: tuple[str, int, Sequence[object]]) -> None:
    """Show the series at two servers. Expect of each query what it gives in that minute."""
    scene = {
        "interval": "1m",
        "input_series": [
            {"series": seen_at(server, series), "values": values}
            for server in ("muster-0", "muster-1")
            for series, values in shown.items()
        ],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}
            for query, minute, samples in expected
        ],
    }
    (place / "muster.rules.yml").write_text(render(), encoding="utf-8")
    told = {"rule_files": ["muster.rules.yml"], "evaluation_interval": "1m", "tests": [scene]}
    (place / "scene.yml").write_text(json.dumps(told), encoding="utf-8")
    done = subprocess.run(
        [str(promtool.path()), "test", "rules", "scene.yml"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_gauge_that_all_servers_share_is_never_added_up(terminal: Terminal) -> None:
    listed = json.loads(terminal.muster("metrics", "list", "--output", "json").out)["items"]
    gauges = {each["name"] for each in listed if each["kind"] == "gauge"}
    asked = [alert.expression for alert in ALERTS]
    asked += [query for _, panels in ROWS for panel in panels for query, _ in panel.queries]
    alone = [re.sub(r"max(?: by \([\w, ]+\))? ?\([^()]*\)", "", text) for text in asked]
    assert [text for text in alone if gauges & set(_NAME.findall(text))] == []
