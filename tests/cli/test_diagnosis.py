"""A failed boot on the command line: its cause, the line that proves it, what to do, where there is more."""

import json

from tests.cli.terminal import Terminal


def collected(terminal: Terminal, node: str) -> None:
    """Until the feed tells that what is known of the node's failure was collected."""
    with terminal.started(["events", "--of", node, "--follow", "--output", "json"]) as feed:
        assert feed.stdout is not None
        try:
            told = (json.loads(line) for line in feed.stdout)
            assert any((event["entity"], event["name"]) == ("diagnosis", "collected") for event in told)
        finally:
            feed.terminate()


def test_a_failed_provision_tells_the_cause_the_line_and_the_way_to_more(terminal: Terminal) -> None:
    said = terminal.muster("provision", "-t", "broken", "--count", "1")
    assert said.code == 1
    first, *more = said.err.strip().split("\n")[-6:]
    assert first.startswith("error: provision") and "(provision_failed: boot_script_failed)" in first
    assert more[0] == "  cause: script_failed: The boot script failed: exit status 3."
    assert more[1] == "  agent line 2: this can not work"
    assert more[2].startswith("  advice: this is its last output: fix ")
    node = more[3].removeprefix("  more: `muster nodes diagnosis ").removesuffix("`")
    assert more[4].endswith("/codes#boot_script_failed")

    collected(terminal, node)
    shown = terminal.muster("nodes", "diagnosis", node)
    assert shown.code == 0, shown.err
    assert f"node       {node}" in shown.out and "cause      script_failed" in shown.out
    assert (
        "--- phases ---" in shown.out and "--- console ---" in shown.out and "this can not work" in shown.out
    )

    listed = terminal.muster("operations", "--status", "failed", "--limit", "1", "-o", "json")
    (failed,) = listed.json["items"]
    again = terminal.muster("operations", "show", failed["operation_id"]).out
    assert "agent line 2: this can not work" in again and f"`muster nodes diagnosis {node}`" in again
    assert "booting" not in again.partition("nodes")[2]

    record = terminal.muster("nodes", "diagnosis", node, "--output", "json").json
    assert (record["node_id"], record["cause"]) == (node, "script_failed")
    assert [each["name"] for each in record["sections"]] == ["phases", "agent", "console", "provider"]


def test_a_failed_run_tells_it_too_and_in_json_the_record_has_it(terminal: Terminal) -> None:
    said = terminal.muster("run", "-t", "broken", "--", "true")
    assert said.code == 1 and "  agent line 2: this can not work" in said.err
    told = terminal.muster("provision", "-t", "broken", "--count", "1", "--output", "json")
    error = told.json["error"]
    assert error["diagnosis"]["evidence"]["text"] == "this can not work" and error["node_id"]
    assert told.error["reason"] == "boot_script_failed" and "cause:" not in told.err


def test_a_node_without_a_diagnosis_is_told_in_a_sentence(terminal: Terminal) -> None:
    said = terminal.muster("nodes", "diagnosis", "no-such-node")
    assert said.code == 2 and "cannot find node" in said.err
