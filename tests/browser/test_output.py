"""What a run's commands write, on the run's page while they write it."""

import json
import os
import socket
import subprocess
import sys

from playwright.sync_api import expect

from tests.browser.viewing import View
from tests.e2e.site import Site

SCRIPT = """
printf '\\033[31mbegun\\033[0m on node %s, \\033]0;a title\\007<b>as text</b>\\n' "$MUSTER_INDEX"
python3 -c "import socket; socket.create_connection(('127.0.0.1', $0)).recv(1)" 2>/dev/null
[ "$MUSTER_INDEX" = 0 ] || seq 1 60000
echo "over on node $MUSTER_INDEX"
exit "$MUSTER_INDEX"
"""


def run(site: Site, token: str, *words: str) -> str:
    """As a person types it; gives the operation's id."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", "run", *words],
        env={**kept, "MUSTER_SERVER": site.url, "MUSTER_TOKEN": token, "HOME": str(site.root)},
        cwd=site.root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60.0,
    )
    return str(json.loads(done.stdout)["operation_id"])


def test_the_output_of_a_run_is_seen_while_it_comes_and_stays(
    site: Site, view: View, tokens: dict[str, str]
) -> None:
    gate = socket.create_server(("127.0.0.1", 0))  # a client that connects waits until it is closed
    words = ("-t", "quick", "-n", "2", "--run", "talking", "--detach", "-o", "json", "--")
    command = ("sh", "-c", SCRIPT, str(gate.getsockname()[1]))
    operation_id = run(site, tokens["operator"], *words, *command)
    page = view.go(f"/operations/{operation_id}")
    banner, output = view.by("operation-banner"), view.by("output")
    expect(output).to_contain_text("begun on node 0, <b>as text</b>")
    expect(banner).to_have_attribute("data-status", "running")
    page.get_by_role("button", name="Output of node 1").click()
    expect(output).to_contain_text("begun on node 1")
    expect(output.get_by_test_id("output-end")).to_have_count(0)

    gate.close()
    expect(output).to_contain_text("over on node 1")
    expect(output.get_by_test_id("output-dropped")).to_contain_text("muster logs talking")
    assert len(output.get_by_role("log").inner_text()) <= 256 * 1024, "only the end is kept"
    expect(output.get_by_test_id("output-end")).to_contain_text("exit 1")
    expect(banner).to_have_attribute("data-status", "failed")

    page.reload()
    expect(output).to_contain_text("over on node 1")  # the one that went wrong comes first
    page.get_by_role("button", name="Output of node 0").click()
    log = output.get_by_role("log")
    expect(log).to_have_text("begun on node 0, <b>as text</b>\nover on node 0\n")
    expect(output.get_by_test_id("output-end")).to_contain_text("exit 0")
    expect(view.by("command")).to_have_count(2)
