"""Boots that fail, seen through every door: the operation, the API, the disk."""

import os
import signal

import pytest

from muster.client import calls
from muster.domain.errors import NoDiagnosis
from muster.wire.diagnoses import Bundle
from muster.wire.operations import Operation
from tests.e2e.site import Site, until

SECRET = "ghp_abcdefghijklmnopqrst1234"
SCRIPT = f"""#!/bin/bash
set -e
export DEPLOY_TOKEN={SECRET}
echo "logging in with token=$DEPLOY_TOKEN"
# the tool is misspelt
frobnicate --all
"""


def failed(site: Site, **template: object) -> Operation:
    site.template("broken", **template)
    end = site.provision(1, template="broken")
    assert end.status == "failed" and end.error is not None and end.error.node_id is not None
    return end


def diagnosis(site: Site, node_id: str) -> Bundle:
    def look() -> Bundle | None:
        try:
            return site.ask(calls.diagnosis(node_id))
        except NoDiagnosis:
            return None

    return until(look, "the bundle")


def section(bundle: Bundle, name: str) -> str:
    (found,) = [each.text for each in bundle.sections if each.name == name]
    return found


def test_a_failed_script_is_told_by_its_line_and_command_at_once_and_with_all_sections_soon(
    site: Site,
) -> None:
    end = failed(site, boot_script=SCRIPT)
    assert end.error is not None and end.error.diagnosis is not None and end.error.node_id is not None
    told = end.error.diagnosis
    assert told.cause == "script_failed" and told.evidence is not None
    assert "at line 6 in `frobnicate`: exit status 127, command not found" in told.summary
    assert "line 6: frobnicate" in told.evidence.text

    bundle = diagnosis(site, end.error.node_id)
    assert bundle.cause == "script_failed" and bundle.reason == "boot_script_failed"
    assert "boot_script" in section(bundle, "phases")
    assert "frobnicate: command not found" in section(bundle, "agent")
    assert "joined as" in section(bundle, "console")
    assert "state: " in section(bundle, "provider")
    until(lambda: not site.nodes("created", "failed", template="broken"), "its node to be condemned")
    assert len([event for event in site.feed() if event.name == "collected"]) == 1


def test_no_secret_of_a_boot_script_gets_into_the_store_or_out_of_it(site: Site) -> None:
    end = failed(site, boot_script=SCRIPT)
    assert end.error is not None and end.error.node_id is not None
    bundle = diagnosis(site, end.error.node_id)
    assert SECRET not in repr(bundle) and "token=[redacted]" in section(bundle, "agent")
    feed = [event for event in site.feed() if event.entity != "template"]
    assert SECRET not in repr(feed)


def test_a_script_that_hangs_is_told_by_its_last_line(site: Site) -> None:
    end = failed(
        site,
        boot_script="echo fetching the licence\nexec sleep 1000",
        provision_timeout=3.0,
        max_provision_timeout=3.0,
        rescue_window=30.0,
    )
    assert end.error is not None and end.error.node_id is not None
    bundle = diagnosis(site, end.error.node_id)
    assert bundle.reason in ("boot_timeout", "boot_stalled") and bundle.cause in ("slow", "stalled")
    assert section(bundle, "console").endswith("fetching the licence")


def test_a_machine_that_dies_while_it_boots_is_seen_soon(site: Site) -> None:
    site.template("dying", boot_script="sleep 100", provision_timeout=600.0)
    operation = site.ask(calls.provision(site.request(1, template="dying")))
    (node,) = until(lambda: site.nodes("created", template="dying"), "its node")
    os.kill(site.body(node).agent, signal.SIGKILL)
    end = site.ended(operation)
    assert end.status == "failed" and end.error is not None
    assert end.error.reason == "machine_gone" and end.error.diagnosis is not None
    assert end.elapsed_seconds < 60.0


def test_a_run_tells_what_its_provision_failed_of(site: Site) -> None:
    site.template("broken", boot_script="echo no such luck >&2\nexit 4")
    end = site.ended(site.run("true", template="broken"))
    assert end.status == "failed" and end.error is not None and end.error.diagnosis is not None
    assert end.error.diagnosis.evidence is not None
    assert end.error.diagnosis.evidence.text == "no such luck"


def test_a_healthy_node_has_no_diagnosis_and_that_is_said(site: Site) -> None:
    site.template("fine")
    operation = site.succeeded(site.provision(1, template="fine"))
    (node,) = site.members(operation)
    with pytest.raises(NoDiagnosis, match="has not failed: it is running"):
        site.ask(calls.diagnosis(node.id))
    site.release(operation)
