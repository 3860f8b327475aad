"""docs/protocol.md as written: each of its commands is run against a real server, each answer compared."""

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

from muster.api import problems
from muster.client import calls
from muster.domain import node as nodes
from muster.domain.access import Role
from muster.domain.ids import NodeId
from muster.domain.reasons import Reason
from muster.domain.template import Runtime, TemplateSpec
from tests.api.site import Site

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
TOLD = re.compile(r"```sh\n(.*?)```\n.*?```json\n(.*?)```", re.DOTALL)
SAME = ("directive", "run", "kit", "type", "title", "status", "code")
"""What the page promises word for word; of the rest it promises names and kinds."""


def _shape(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _shape(each, key) for key, each in value.items()}
    return value if name in SAME else type(value)


async def _apps(site: Site) -> dict[str, str]:
    """A template of apps; the variables that the page asks for."""
    spec = TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE)
    await site.store.apply_template(spec, now=site.ports.clock.now())
    return {
        "MUSTER_SERVER": site.url,
        "MUSTER_ENROL_TOKEN": site.secrets[Role.ENROL],
        "PATH": "/usr/bin:/bin",
    }


async def _shell(script: str, variables: dict[str, str]) -> str:
    shell = await asyncio.create_subprocess_exec(
        "bash", "-ec", script, env=variables, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await shell.communicate()
    assert shell.returncode == 0, script
    return said.decode()


async def test_each_command_of_the_page_gets_the_answer_of_the_page(site: Site) -> None:
    variables = await _apps(site)
    states, node_id = [], ""
    for command, promised in TOLD.findall(PAGE):
        told = json.loads(await _shell(command, variables))
        assert _shape(told) == _shape(json.loads(promised)), command
        if "token" in told:
            variables |= {"TOKEN": told["token"], "ASSIGNMENT": told["desired"]["assignment_id"]}
            node_id = told["node_id"]
        states.append((await site.client().send(calls.node(node_id))).state)
    assert states[:4] == ["created", "created", "running", "running"]
    assert len(states) == PAGE.count("```sh\n") == PAGE.count("```json\n") == 7


def test_the_page_names_every_refusal_that_an_app_can_meet_with_its_status() -> None:
    told = {
        (int(status), code)
        for status, codes in re.findall(r"^\| (\d+) \| (`.*?`) \|", PAGE, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", codes)
    }
    known = {(status, code) for _, status, code, _ in problems.TABLE}
    others = {(415, "unsupported_media_type"), (500, "internal")}
    assert told - others <= known
    never = {
        "idempotency_mismatch",
        "cursor_lost",
        "no_diagnosis",
        "ambiguous",
        "cluster_exists",
        "not_cancellable",
        "queue_full",
        "no_sign_in",
        "authorization_pending",
        "access_denied",
        "expired_token",
        "too_many_shells",
        "gone",
        "provider_error",
        "storage_full",
        "not_kept",
    }  # fmt: skip — of requests that no app makes, and of machines
    assert known - told == {each for each in known if each[1] in never}


async def test_an_enrolment_that_cannot_be_read_is_answered_as_the_page_says(site: Site) -> None:
    await _apps(site)
    http = site.http(site.secrets[Role.ENROL])
    for kind, body, expected in (
        ("application/json", b"{", (400, "malformed_json")),
        ("text/plain", b"{}", (415, "unsupported_media_type")),
        ("application/json", b"{}", (422, "invalid_request")),
    ):
        answer = await http.post("/api/v1/agent/enrol", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["code"]) == expected


async def test_the_whole_client_of_the_page_runs_comes_back_and_leaves(site: Site) -> None:
    variables = await _apps(site)
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    shell = await asyncio.create_subprocess_exec("bash", "-c", script, env=variables)
    client = site.client()
    known: list[str] = []

    async def another_runs() -> bool:
        found = (await client.send(calls.nodes(template="web"))).items
        known.extend(node.id for node in found if node.state == "running" and node.id not in known)
        return len(known) == expected

    expected = 1
    await site.until(another_runs)
    given_up = await site.store.node(NodeId(known[0]))
    now = site.ports.clock.now()
    await site.store.apply(nodes.condemn(given_up, now=now, reason=Reason.HEARTBEAT_LOST))
    expected = 2
    await site.until(another_runs)
    shell.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(shell.wait(), 20) == 0
    assert (await client.send(calls.node(known[1]))).reason == "left"
