"""Nodes that failed are kept for a look, shown with their time, and ended for sure."""

import json
import time
from typing import Any

import pytest

from tests.cli.terminal import PATIENCE, Terminal
from tests.cli.typist import Typist


def nodes(terminal: Terminal, run: str) -> list[Any]:
    found = terminal.muster("nodes", "--output", "json").json["items"]
    return [each for each in found if each["run"] == run]


def until_gone(terminal: Terminal, node: str) -> Any:
    latest = time.monotonic() + PATIENCE
    while True:
        found = terminal.muster("nodes", "show", node, "--output", "json").json
        if found["state"] == "terminated":
            return found
        assert time.monotonic() < latest, found
        time.sleep(0.1)


def failed(terminal: Terminal, run: str, hold: str) -> Any:
    said = terminal.muster(
        "provision", "--template", "broken", "--run", run, "--hold-on-failure", hold, "--output", "json"
    )
    assert (said.code, said.error["reason"]) == (1, "boot_script_failed"), said
    (node,) = nodes(terminal, run)
    assert (node["state"], node["deadline_source"]) == ("failed", "hold")
    return node


def test_a_failed_run_keeps_its_nodes_for_a_look_and_gives_them_back_when_told(terminal: Terminal) -> None:
    said = terminal.muster(
        "run", "--template", "small", "--run", "kept", "--hold-on-failure", "30m", "--", "sh", "-c",
        "echo clue > trace; exit 3",
    )  # fmt: skip
    assert said.code == 3
    (node,) = nodes(terminal, "kept")
    assert (node["state"], node["deadline_source"]) == ("running", "hold")
    assert "running (held 29m" in terminal.muster("nodes").out
    status = terminal.muster("status").out
    assert f"{node['id']} (running, small, run kept): kept by first admin (tok-" in status, status
    assert "29m left, 1 of 1 under its cap of 20" in status and "end it: `muster release kept`" in status
    why = terminal.muster("operations", "--output", "json").json["items"]
    (run,) = [each for each in why if each["kind"] == "run" and each["run"] == "kept"]
    assert "kept for a look: `muster shell kept`" in run["error"]["message"]
    looked = terminal.typed("shell", "kept", given="cat trace\n")
    assert (looked.code, looked.out) == (0, "clue\n")
    extended = terminal.muster("extend", "kept", "--by", "10m", "--output", "json").json["items"]
    assert extended[0]["deadline_source"] == "hold" and extended[0]["deadline_at"] > node["deadline_at"]
    refused = terminal.muster("extend", "kept", "--by", "1d")
    assert refused.code == 2 and "at most one day from now; ask for less" in refused.err
    assert nodes(terminal, "kept")[0]["deadline_at"] == extended[0]["deadline_at"]
    assert terminal.muster("release", "kept").code == 0
    assert nodes(terminal, "kept") == []


def test_a_good_run_keeps_nothing(terminal: Terminal) -> None:
    words = ("run", "--template", "small", "--run", "good", "--hold-on-failure", "30m", "--", "true")
    assert terminal.muster(*words).code == 0
    assert [each for each in nodes(terminal, "good") if each["state"] == "running"] == []


def test_a_node_whose_boot_failed_can_be_looked_into_and_ended(terminal: Terminal) -> None:
    node = failed(terminal, "look-boot", "30m")
    with Typist(
        "shell", node["id"], environment=terminal.environment, directory=terminal.directory
    ) as person:
        person.prompted()
        person.asks("echo $MUSTER_NODE; pwd | grep -c home; echo do''ne", "done")
        person.line("exit 4")
        assert person.code() == 4
    assert terminal.muster("exec", "look-boot", "--", "true").code != 0, "only a look"
    later = terminal.muster("nodes", "hold", node["id"], "--for", "2h", "--output", "json").json
    assert later["deadline_at"] > node["deadline_at"]
    (held,) = terminal.muster("status", "--output", "json").json["held"]["items"]
    assert (held["node_id"], held["state"], held["run"]) == (node["id"], "failed", "look-boot")
    assert held["by"].startswith("first admin (tok-") and held["reason"] == "boot_script_failed"
    assert held["deadline_at"] == later["deadline_at"] and held["used"] >= 1
    assert held["end"] == f"muster nodes terminate {node['id']}"
    report = terminal.muster("status", "--report").out
    assert f"## Kept for a look\n- {node['id']} of broken (failed), kept by first admin (tok-" in report
    assert terminal.muster("nodes", "terminate", node["id"]).code == 0
    assert until_gone(terminal, node["id"])["reason"] == "operator"


def test_the_time_of_a_look_ends_a_node_for_sure(terminal: Terminal) -> None:
    words = ("run", "--template", "small", "--run", "brief", "--hold-on-failure", "1s", "--", "false")
    assert terminal.muster(*words).code == 1
    feed = [
        json.loads(line) for line in terminal.muster("events", "--last", "500", "-o", "json").out.splitlines()
    ]
    held = [each for each in feed if each["name"] == "held"][-1]
    gone = until_gone(terminal, held["entity_id"])
    assert (gone["reason"], gone["run"]) == ("hold_over", "brief")


@pytest.mark.parametrize("hold", ["2d", "0", "soon"])
def test_a_look_of_more_than_a_day_or_none_is_refused(terminal: Terminal, hold: str) -> None:
    words = ("provision", "--template", "small", "--run", "never", "--hold-on-failure", hold)
    said = terminal.muster(*words)
    assert said.code == 2 and "hold" in said.err
    assert nodes(terminal, "never") == []


def test_only_a_failed_node_is_held_by_hand(terminal: Terminal) -> None:
    made = terminal.muster("provision", "--template", "small", "--run", "fine")
    assert made.code == 0
    (node,) = nodes(terminal, "fine")
    said = terminal.muster("nodes", "hold", node["id"])
    assert (said.code, "only a failed node is kept" in said.err) == (2, True)
    assert terminal.muster("release", "fine").code == 0
