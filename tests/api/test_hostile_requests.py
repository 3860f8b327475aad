"""Requests that were made to harm: each did before it was bounded."""

import asyncio
import zlib
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest

from fakes.github.issuer import LASTS
from muster.api import access
from muster.api.middleware import PARAMETERS_MOST, QUERY_MOST
from muster.client import calls
from muster.domain.deadlines import Limits
from muster.domain.settings import Settings
from muster.integrations.github.federation import LEEWAY
from tests.api.site import Site, opened
from tests.api.test_agent_routes import _join, _machine
from tests.api.test_signing_in import ASKED, Signing
from tests.operations.test_single_flight import ManualClock

READ = ("/api/v1/operations", "/api/v1/events", "/api/v1/agent/desired", "/healthz")
METHODS = ("TRACE", "PATCH", "DELETE", "HEAD", "PROPFIND")


async def test_a_query_that_takes_seconds_to_parse_is_refused_unparsed(site: Site) -> None:
    http = site.http()
    many = "&".join(f"p{number}=" for number in range(PARAMETERS_MOST + 1))
    for path in READ:
        for query in (many, "a=" + "x" * (QUERY_MOST - 1)):
            answer = await http.get(f"{path}?{query}")
            assert (answer.status_code, answer.json()["code"]) == (414, "query_too_long"), answer.text
            assert f"send at most {QUERY_MOST} bytes" in answer.json()["detail"]
    for query in ("&".join(["last=1"] * PARAMETERS_MOST), "cursor=" + "x" * (QUERY_MOST - 7)):
        answer = await http.get(f"/api/v1/events?{query}")
        assert answer.status_code in (200, 422), "within the bounds it is read"


async def test_a_cursor_of_brackets_is_refused_and_no_crash(site: Site) -> None:
    body = b"[" * 3000 + b"]" * 3000
    cursor = urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode().rstrip("=")
    http = site.http()
    for path in ("nodes", "operations", "events", "commands"):
        answer = await http.get(f"/api/v1/{path}", params={"cursor": cursor})
        assert (answer.status_code, answer.json()["field"]) == (422, "cursor"), answer.text


async def test_a_trailing_slash_sends_no_one_to_the_host_that_the_caller_named(site: Site) -> None:
    for method, path in (("GET", "/api/v1/nodes/"), ("GET", "/healthz/"), ("POST", "/api/v1/provisions/")):
        answer = await site.http().request(method, path, headers={"Host": "evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "location" not in answer.headers and "evil.example" not in answer.text


async def test_a_method_that_a_path_does_not_take_is_refused_with_those_that_it_takes(site: Site) -> None:
    http = site.http()
    for method in METHODS:
        answer = await http.request(method, "/api/v1/templates/ci", headers={"X-Secret": "echo"})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, PUT"), method
        assert "echo" not in answer.text


async def test_no_cache_keeps_what_agents_hear(site: Site) -> None:
    token = (await _join(site, await _machine(site))).json()["token"]
    for secret in (token, "muster_unknown"):
        http = site.http(secret)
        for method, path in (("POST", "beat"), ("GET", "desired"), ("POST", "report")):
            for _ in range(3):
                said = {"booted": True} if path == "report" else {} if path == "beat" else None
                answer = await http.request(method, f"/api/v1/agent/{path}", json=said)
                assert answer.status_code == (200 if secret == token else 401), answer.text
                assert answer.headers.get_list("cache-control") == ["no-store"]
                assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


async def test_a_workflow_s_stream_ends_with_its_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LOOK_AGAIN", 0.0)
    site.lazy = True
    clock = ManualClock()
    signing = Signing(site, clock)
    http = signing.http()
    made = (await http.post("/api/v1/provisions", json=ASKED)).json()["operation_id"]
    told: list[str] = []
    async with asyncio.timeout(30), http.stream("GET", f"/api/v1/operations/{made}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data"):
                told.append(line)
            if len(told) == 1:
                clock.time += LASTS + LEEWAY
                await site.client().send(calls.cancel(made))
    assert '"status":"cancelled"' not in "".join(told)


async def test_an_owner_that_queues_too_much_is_told_to_wait(tmp_path: Path) -> None:
    most = 2
    limits = Limits(queued_per_owner=most)
    async with opened(tmp_path, settings=Settings(limits=limits)) as site:
        site.lazy = True
        await site.template(max_nodes=1)
        http = site.http()

        async def asked(number: int, owner: str = "acme", **more: Any) -> httpx.Response:
            body = {"template": "ci", "count": 1, "run": f"run-{number}", "owner": owner, **more}
            return await http.post("/api/v1/provisions", json={"queue_timeout": 600, **body})

        first = (await asked(0)).json()["operation_id"]

        async def begun() -> bool:
            return bool((await http.get(f"/api/v1/operations/{first}")).json()["status"] == "running")

        await site.until(begun)
        waiting = [(await asked(number + 1)).json()["operation_id"] for number in range(most)]
        refused = await asked(9)
        assert (refused.status_code, refused.json()["code"]) == (429, "queue_full"), refused.text
        assert int(refused.headers["retry-after"]) > 0
        assert f"{most} of its operations wait already" in refused.json()["detail"]
        assert (await asked(9, owner="other")).status_code == 202
        assert (await asked(9, queue_timeout=0)).status_code == 202, "it waits for nothing"
        await http.post(f"/api/v1/operations/{waiting[0]}/cancel")

        async def room() -> bool:
            return (await asked(10)).status_code == 202

        await site.until(room)
