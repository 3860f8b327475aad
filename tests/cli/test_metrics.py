"""What to watch: the server's metrics, alert rules for Prometheus and a dashboard for Grafana."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from muster.monitoring.alerts import ALERTS, render
from muster.monitoring.dashboard import ROWS
from tests.cli.terminal import Terminal
from tools import promtool, reference

ROOT = Path(__file__).parents[2]
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
