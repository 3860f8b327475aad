import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from muster.domain.access import Role
from muster.domain.template import TemplateSpec
from tests.api.site import Site

GOOD = {"template": "ci", "count": 1, "run": "run-1"}
TEXT = {"content-type": "application/json"}


def _refused(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, object] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert {"type", "title", "detail"} <= set(problem)
    assert str(problem["detail"]).startswith("cannot ")
    assert "Traceback" not in answer.text
    return problem


async def _nothing_happened(site: Site) -> None:
    answer = await site.http().get("/api/v1/operations")
    assert answer.json()["items"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 0),
        ("count", -1),
        ("count", 10**9),
        ("count", "3"),
        ("count", 1.5),
        ("count", True),
        ("count", None),
        ("count", [1]),
        ("run", ""),
        ("run", "x" * 10_000),
        ("run", "a\nb"),
        ("run", "\x00"),
        ("run", " padded "),
        ("run", "\u202eright to left"),
        ("run", 42),
        ("template", "No Such Name"),
        ("template", "x" * 64),
        ("resource_class", "gigantic"),
        ("usage", ["sometimes"]),
        ("usage", []),
        ("usage", "spot"),
        ("instance_types", ["c[5]"]),
        ("instance_types", []),
        ("instance_types", "c*"),
        ("owner", ""),
        ("timeout", 0),
        ("timeout", -5),
        ("timeout", "10m"),
        ("max_runtime", 10**10),
        ("queue_timeout", -1),
    ],
)
async def test_a_value_that_cannot_work_is_refused_by_name(site: Site, field: str, value: object) -> None:
    answer = await site.http().post("/api/v1/provisions", json={**GOOD, field: value})
    problem = _refused(answer, 422, "invalid_request")
    assert str(problem["field"]).split(".")[0] == field
    assert problem["rule"]
    await _nothing_happened(site)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_numbers_that_are_none_are_refused(site: Site, number: str) -> None:
    body = json.dumps({**GOOD, "timeout": "HERE"}).replace('"HERE"', number)
    answer = await site.http().post("/api/v1/provisions", content=body, headers=TEXT)
    _refused(answer, 422, "invalid_request")
    await _nothing_happened(site)


async def test_a_number_of_ten_thousand_digits_is_refused(site: Site) -> None:
    body = json.dumps({**GOOD, "count": "HERE"}).replace('"HERE"', "9" * 10_000)
    answer = await site.http().post("/api/v1/provisions", content=body, headers=TEXT)
    assert answer.status_code in (400, 422)
    await _nothing_happened(site)


async def test_half_a_character_is_refused(site: Site) -> None:
    for field in ("run", "owner"):
        body = json.dumps({**GOOD, field: "\ud800"})
        answer = await site.http().post("/api/v1/provisions", content=body, headers=TEXT)
        _refused(answer, 422, "invalid_request")
    body = json.dumps({"run": "run-1", "execution": {"argv": ["\ud800"], "env": {"A": "\udfff"}}})
    answer = await site.http().post("/api/v1/commands", content=body, headers=TEXT)
    _refused(answer, 422, "invalid_request")


async def test_a_misspelt_field_is_refused_by_name(site: Site) -> None:
    answer = await site.http().post("/api/v1/provisions", json={**GOOD, "cuont": 2})
    assert _refused(answer, 422, "invalid_request")["field"] == "cuont"


async def test_a_missing_field_is_named(site: Site) -> None:
    answer = await site.http().post("/api/v1/provisions", json={"template": "ci", "run": "run-1"})
    problem = _refused(answer, 422, "invalid_request")
    assert (problem["field"], problem["rule"]) == ("count", "it is missing")


async def test_an_unknown_template_is_not_found(site: Site) -> None:
    answer = await site.http().post("/api/v1/provisions", json={**GOOD, "template": "nope"})
    assert _refused(answer, 404, "not_found")["name"] == "nope"


async def test_a_template_of_a_provider_that_is_not_here_is_refused(site: Site) -> None:
    http = site.http()
    answer = await http.put("/api/v1/templates/far", json={"provider": "simulatd"})
    refused = _refused(answer, 422, "invalid_request")
    assert refused["field"] == "provider" and "did you mean simulated?" in str(refused["detail"])
    spec = TemplateSpec(name="far", provider="moon")
    await site.store.apply_template(spec, now=0.0)  # by a server that had it
    answer = await http.post("/api/v1/provisions", json={**GOOD, "template": "far"})
    assert "not configured" in str(_refused(answer, 422, "invalid_request")["detail"])


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nope",
        b"\xff\xfe",
        b'{"template": "ci",}',
        b"[" * 5000,
        json.dumps(GOOD).encode("utf-16"),
        json.dumps(GOOD).encode("utf-8-sig"),
    ],
)
async def test_a_body_that_is_not_json_is_refused(site: Site, body: bytes) -> None:
    answer = await site.http().post("/api/v1/provisions", content=body, headers=TEXT)
    assert answer.status_code == 400
    assert answer.json()["code"] in ("malformed_json", "malformed_body")
    await _nothing_happened(site)


@pytest.mark.parametrize("body", [b"[]", b"3", b'"text"', b"null", b""])
async def test_a_body_that_is_not_an_object_is_refused(site: Site, body: bytes) -> None:
    answer = await site.http().post("/api/v1/provisions", content=body, headers=TEXT)
    _refused(answer, 422, "invalid_request")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_of_another_type_is_refused(site: Site, kind: str) -> None:
    content = json.dumps(GOOD).encode()
    answer = await site.http().post("/api/v1/provisions", content=content, headers={"content-type": kind})
    _refused(answer, 415, "unsupported_media_type")
    await _nothing_happened(site)


@pytest.mark.parametrize("size", [(1 << 20) + 1, 50_000_000])
async def test_a_large_body_gets_a_clear_answer(site: Site, size: int) -> None:
    answer = await site.http().post("/api/v1/provisions", content=b"x" * size, headers=TEXT)
    assert "1048576 bytes" in str(_refused(answer, 413, "too_large")["detail"])


async def test_a_large_body_without_a_length_gets_the_same_answer(site: Site) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 100_000

    answer = await site.http().post("/api/v1/provisions", content=endless(), headers=TEXT)
    _refused(answer, 413, "too_large")


@pytest.mark.parametrize("length", ["-1", "abc", "1, 2"])
async def test_a_length_that_is_none_is_refused(site: Site, length: str) -> None:
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    secret = site.secrets[Role.ADMIN]
    writer.write(
        f"POST /api/v1/provisions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{}}".encode()
    )
    await writer.drain()
    status = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert status.startswith(b"HTTP/1.1 4")
    await _nothing_happened(site)


@pytest.mark.parametrize("key", ["", "x" * 129, "tab\there"])
async def test_an_idempotency_key_must_be_sensible(site: Site, key: str) -> None:
    headers = {"Idempotency-Key": key}
    answer = await site.http().post("/api/v1/provisions", json=GOOD, headers=headers)
    assert _refused(answer, 422, "invalid_request")["field"] == "idempotency_key"
    await _nothing_happened(site)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=501",
        "limit=many",
        "status=odd",
        "kind=odd",
        "cursor=made-up",
        "colour=red",
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(site: Site, query: str) -> None:
    answer = await site.http().get(f"/api/v1/operations?{query}")
    problem = _refused(answer, 422, "invalid_request")
    assert str(problem["field"]).split(".")[0] == query.partition("=")[0]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"operation_id": "op-1", "run": "run-1"},
        {"assignment_ids": ["as-1"], "run": "run-1"},
        {"operation_id": "op-1", "latest": True},
        {"operation_id": "op-1", "assignment_ids": []},
        {"operation_id": ""},
    ],
)
async def test_a_release_names_one_thing_in_one_way(site: Site, body: dict[str, object]) -> None:
    _refused(await site.http().post("/api/v1/releases", json=body), 422, "invalid_request")


@pytest.mark.parametrize(
    "execution",
    [
        {"argv": []},
        {"argv": "ls"},
        {"argv": ["a\x00b"]},
        {"argv": ["ls"], "env": {"not a name": "x"}},
        {"argv": ["ls"], "env": {"A": 1}},
        {"argv": ["ls"], "timeout": 0},
        {"argv": ["ls"], "collect": ["/etc/passwd"]},
        {"argv": ["ls"], "collect": ["../up"]},
        {"argv": ["ls"], "shell": True},
    ],
)
async def test_an_execution_that_cannot_work_is_refused(site: Site, execution: dict[str, object]) -> None:
    body = {"run": "run-1", "execution": execution}
    _refused(await site.http().post("/api/v1/commands", json=body), 422, "invalid_request")
    run = {"provision": GOOD, "execution": execution}
    _refused(await site.http().post("/api/v1/runs", json=run), 422, "invalid_request")
    await _nothing_happened(site)


@pytest.mark.parametrize("path", ["operations/op-x", "operations/op-x/why", "operations/op-x/events"])
@pytest.mark.parametrize("name", ["", "%00", "..%2F..", "x" * 3000])
async def test_odd_ids_are_not_found(site: Site, path: str, name: str) -> None:
    answer = await site.http().get(f"/api/v1/{path}{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_unknown_path_and_a_wrong_method_are_problems_too(site: Site) -> None:
    _refused(await site.http().get("/api/v1/nope"), 404, "not_found")
    _refused(await site.http().delete("/api/v1/operations"), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", "Not A Name"),
        ("max_nodes", -1),
        ("max_nodes", "20"),
        ("min_idle", 21),
        ("runtime", "java"),
        ("reuse", "sometimes"),
        ("boot_script", "\x00"),
        ("boot_script", "x" * 70_000),
        ("idle_timeout", 0),
        ("nonsense", 1),
    ],
)
async def test_a_template_that_cannot_work_is_refused(site: Site, field: str, value: object) -> None:
    answer = await site.http().put("/api/v1/templates/new", json={"provider": "simulated", field: value})
    assert _refused(answer, 422, "invalid_request")["field"] == field
    _refused(await site.http().get("/api/v1/templates/new"), 404, "not_found")


@pytest.mark.parametrize("most", [-1, 10**9, "100", None, 1.5])
async def test_a_limit_that_cannot_work_is_refused(site: Site, most: object) -> None:
    answer = await site.http().put("/api/v1/installation", json={"max_nodes": most})
    assert _refused(answer, 422, "invalid_request")["field"] == "max_nodes"
    assert (await site.http().get("/api/v1/installation")).json()["max_nodes"] == 100
