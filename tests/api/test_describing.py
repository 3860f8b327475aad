"""What the server says about itself: OpenAPI, health, metrics."""

import json
import logging
from typing import Any

import pytest

from muster.api.decoders import BodyReader
from muster.api.problems import TABLE
from muster.client import calls
from muster.client.problems import ServerProblem, error_of_problem
from muster.domain.errors import StoreFull, StoreUnavailable
from muster.wire.base import Shape
from muster.wire.overview import Overview
from tests.api.site import Site

SUCCESS = ("2", "303")
"""How an answer begins that is what was asked for; 303: a browser that signs in is sent on."""


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for each in value.values() for ref in _refs(each)]
    if isinstance(value, list):
        return [ref for each in value for ref in _refs(each)]
    return []


async def test_the_openapi_document_holds_together(site: Site) -> None:
    document = (await site.http("").get("/api/v1/openapi.json")).json()
    assert document["openapi"].startswith("3.")
    for ref in _refs(document):
        target = document
        for part in ref.removeprefix("#/").split("/"):
            target = target[part]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 40
    for operation in operations:
        assert operation["summary"]
        assert "default" in operation["responses"]
        assert any(status.startswith(SUCCESS) for status in operation["responses"])


async def test_every_operation_has_an_example(site: Site) -> None:
    document = (await site.http("").get("/api/v1/openapi.json")).json()
    schemas = document["components"]["schemas"]

    def exemplified(content: dict[str, Any]) -> bool:
        if "example" in content or "examples" in content:
            return True
        name = str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]
        schema = schemas.get(name, {})
        listed = schema.get("properties", {}).get("items", {}).get("items", {}).get("$ref", "")
        return bool(schema.get("examples") or schemas.get(listed.rpartition("/")[2], {}).get("examples"))

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            good = next(each for status, each in operation["responses"].items() if status.startswith(SUCCESS))
            contents = [*good.get("content", {}).values()]
            assert contents, (method, path)
            assert all(exemplified(content) for content in contents), (method, path)
            taken = operation.get("requestBody", {}).get("content", {})
            assert all(exemplified(content) for content in taken.values()), (method, path)


async def test_examples_are_what_the_models_say(site: Site) -> None:
    count = 0
    for shape in _shapes(Shape):
        if shape.EXAMPLE and shape is not Overview:  # whose example is an excerpt
            BodyReader(shape).read(json.dumps(dict(shape.EXAMPLE)).encode())
            count += 1
    assert count > 25


def _shapes(shape: type[Shape]) -> list[type[Shape]]:
    found = [each for each in shape.__subclasses__() if each.__module__.startswith("muster.wire.")]
    return found + [inner for each in found for inner in _shapes(each)]


_PLAIN = (
    "too_large",
    "storage_full",
    "not_kept",
    "cap_reached",
    "throttled",
    "provider_error",
    "not_found",
    "malformed_json",
    "malformed_body",
    "no_sign_in",
    "authorization_pending",
    "access_denied",
    "expired_token",
)


async def test_every_code_of_the_table_is_known_to_the_client(site: Site) -> None:
    for kind, status, code, title in TABLE:
        error = error_of_problem(
            status, json.dumps({"code": code, "title": title, "detail": "cannot"}).encode(), 1.0
        )
        if code in _PLAIN:
            assert isinstance(error, ServerProblem)
        else:
            assert type(error).__name__ == kind.__name__


async def test_an_unforeseen_error_is_a_problem_with_an_id_that_is_in_the_log(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **kwargs: object) -> object:
        raise RuntimeError("the inside of the program")

    monkeypatch.setattr(site.ports.store, "templates", broken)
    with caplog.at_level(logging.ERROR, logger="muster"):
        answer = await site.http().get("/api/v1/templates")
    assert answer.status_code == 500
    problem = answer.json()
    assert problem["code"] == "internal"
    assert "inside" not in answer.text
    assert problem["problem_id"] in problem["detail"]
    # Duties read templates too, and log that they could not.
    told = [getattr(record, "problem_id", None) for record in caplog.records]
    assert [each for each in told if each is not None] == [problem["problem_id"]]


async def test_a_store_that_does_not_answer_is_a_503_that_says_when_to_ask_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **kwargs: object) -> object:
        raise StoreUnavailable("cannot write: the disk is full", why="the disk is full")

    monkeypatch.setattr(site.ports.store, "templates", away)
    answer = await site.http().get("/api/v1/templates")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert "disk is full" in answer.json()["detail"]


@pytest.mark.parametrize("token", ["wrong", None])
async def test_where_the_store_is_stands_in_the_log_and_in_no_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, token: str | None
) -> None:
    """Without a store no token can be recognised, so the answer may go to any caller."""
    where = "postgresql://keeper@db.internal/secrets"

    async def away(*args: object, **kwargs: object) -> object:
        raise StoreUnavailable(f"cannot connect to the store at {where}", why="no connection can be made")

    monkeypatch.setattr(site.store._engine, "read", away)
    answers = [
        await site.http(token).get(path)
        for path in ("/api/v1/templates", "/api/v1/nodes", "/readyz", "/metrics", "/api/v1/agent/desired")
    ]
    assert [answer.status_code for answer in answers] == [503] * 5
    for answer in answers:
        assert "no connection can be made" in answer.json()["detail"]
        assert [word for word in ("keeper", "db.internal", "secrets") if word in answer.text] == []
    told = [record for record in caplog.records if record.getMessage() == "the store failed"]
    assert [where in record.error for record in told] == [True]  # type: ignore[attr-defined]


async def test_the_process_lives_and_is_ready(site: Site) -> None:
    http = site.http("")
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready"}


async def test_only_a_store_without_room_makes_a_server_unready_by_what_it_refused(site: Site) -> None:
    http, metrics, now = site.http(""), site.api.context.metrics, site.ports.clock.now()
    metrics.took("submit", 0.1, StoreUnavailable("a hiccup"), now=now)
    assert (await http.get("/readyz")).status_code == 200
    metrics.took("submit", 0.1, StoreFull("no room"), now=now)
    assert "takes nothing new" in (await http.get("/readyz")).json()["detail"]
    metrics.took("submit", 0.1, now=now)
    assert (await http.get("/readyz")).status_code == 200


async def test_a_server_without_its_store_or_its_duties_is_not_ready(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **kwargs: object) -> object:
        raise StoreUnavailable("cannot read")

    monkeypatch.setattr(site.ports.store, "lease_duties", away)  # or one may tick between the next two lines
    site.api.context.metrics.duty_at = 0.0
    answer = await site.http("").get("/readyz")
    assert answer.status_code == 503
    assert "duties" in answer.json()["detail"]
    monkeypatch.setattr(site.ports.store, "admitted_key", away)
    assert "the store" in (await site.http("").get("/readyz")).json()["detail"]
    assert (await site.http("").get("/healthz")).status_code == 200


async def test_the_figures_that_an_operator_alarms_on_are_there(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client, count=2)
    await site.ended(client, await client.send(calls.release(operation_id=operation.operation_id)))
    answer = await site.http().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        'muster_nodes{template="ci",state="idle"} 2',
        'muster_operations_ended_total{kind="provision",status="succeeded"} 1',
        'muster_operations_ended_total{kind="release",status="succeeded"} 1',
        "muster_queue_length 0",
        "muster_nodes_needing_attention 0",
        "muster_nodes_stale 0",
        "muster_beat_seconds 5",
        "muster_stale_after_seconds 20",
        "muster_boot_seconds_count 2",
        "muster_attach_seconds_count 2",
        "muster_launch_seconds_count 1",
    ):
        assert line in lines
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    assert {"muster_build_info", "muster_store_seconds_bucket", "muster_queue_oldest_seconds"} <= names
    assert all(name.startswith("muster_") for name in names)


async def test_templates_and_limits_are_applied_and_equal_content_keeps_its_revision(site: Site) -> None:
    http = site.http()
    body = {"provider": "simulated", "min_idle": 0, "usage": ["spot", "on-demand"], "reuse": "never"}
    first = (await http.put("/api/v1/templates/new", json=body)).json()
    again = (await http.put("/api/v1/templates/new", json=body)).json()
    kept = (await http.put("/api/v1/templates/new", json={**body, "max_nodes": 3})).json()
    other = (await http.put("/api/v1/templates/new", json={**body, "boot_script": "true"})).json()
    assert (first["revision"], again["revision"], kept["revision"], other["revision"]) == (1, 1, 1, 2)
    plan = (
        await http.post(
            "/api/v1/templates/plan", json={"templates": {"new": body, "x": {**body, "min_idle": 30}}}
        )
    ).json()
    assert [(each["name"], each["effect"], len(each["errors"])) for each in plan["items"]] == [
        ("new", "revision", 0),
        ("x", None, 1),
    ]
    assert plan["items"][0]["fields"] == [
        {"field": "boot_script", "before": "true", "after": "", "remakes": True}
    ]
    assert plan["items"][1]["errors"][0]["rule"] == "must not exceed max_nodes (20)"
    assert (await site.client().send(calls.template("new"))).usage == ("spot", "on-demand")
    assert [template.name for template in await site.client().send(calls.templates())] == ["ci", "new"]
    assert (await site.client().send(calls.limit(7))).max_nodes == 7
    assert (await site.client().send(calls.installation())).max_nodes == 7
