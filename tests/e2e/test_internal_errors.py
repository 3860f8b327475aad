"""A bug that one operation meets, as its caller, the next caller and the operator see it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.cli.terminal import Terminal
from tests.e2e.site import Site, until


def test_a_bug_ends_its_operation_visibly_and_the_next_one_gets_the_room(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = make_site(bug="complete").start()  # its nodes are attached, and it is about to be committed
    site.template(max_nodes=2)
    with site.http() as http:
        body = {"template": "ci", "count": 2, "run": "unlucky"}
        asked = http.post("/api/v1/provisions", json=body, headers={"Idempotency-Key": "unlucky"})
        path = f"/api/v1/operations/{asked.json()['operation_id']}"
        ended = until(lambda: found if (found := http.get(path).json())["ended_at"] else None, "its end")
        assert ended["status"] == "failed"
        assert ended["error"]["reason"] == "internal"
        told = ended["error"]["message"]
        assert "hunter2" not in told
        named = re.search(r"error id (err-\w+)", told)
        assert named is not None
        logged = [json.loads(line) for line in site.words().splitlines()]
        (line,) = [each for each in logged if each.get("error_id") == named[1] and "Traceback" in str(each)]
        assert line["operation_id"] == ended["operation_id"]
    other = site.provision(2, run="lucky", queue_timeout=60.0)
    assert other.status == "succeeded", other.error
    status = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(site.data)}).muster("status").out
    assert ended["operation_id"] in status.splitlines()[0], status
    assert named[1] in status
    assert site.release(other).status == "succeeded"
