"""What a stranger with plain HTTP is told about a request that the server can't read."""

import json
from typing import Any

import msgspec
import pytest

from muster.api.decoders import TOLD_MOST
from muster.wire.nodes import Node
from muster.wire.operations import Operation
from tests.api.site import Site
from tests.api.test_agent_routes import _join, _machine

PROVISION = {"template": "ci", "count": 1, "run": "run-1"}
EC2 = {"image": "ami-0123456789abcdef0", "subnets": ["subnet-0123456789abcdef0"]}


async def _errors(site: Site, path: str, body: Any, method: str = "POST") -> list[tuple[str, str]]:
    answer = await site.http().request(method, f"/api/v1/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
    assert answer.json()["detail"].startswith(f"cannot accept {answer.json()['errors'][0]['field']}")
    return [(each["field"], each["rule"]) for each in answer.json()["errors"]]


async def test_all_errors_of_a_body_are_told_at_once_in_the_order_of_its_fields(site: Site) -> None:
    body = {"count": "3", "usage": ["spot", "maybe"], "timeout": [], "queue_timout": 5}
    assert await _errors(site, "provisions", body) == [
        ("template", "it is missing"),
        ("count", "must be a whole number, not text or a fraction"),
        ("run", "it is missing"),
        ("usage.1", "must be one of on-demand, spot"),
        ("timeout", "must be a number"),
        ("queue_timout", "there is no such field; did you mean queue_timeout?"),
    ]


async def test_a_field_that_nothing_resembles_gets_no_guess(site: Site) -> None:
    found = await _errors(site, "provisions", {**PROVISION, "xyz": 1})
    assert found == [("xyz", "there is no such field; check its spelling")]


async def test_strictness_reaches_every_depth(site: Site) -> None:
    body = {
        "provider": "ec2",
        "ec2": {**EC2, "hop_limits": 2},
        "process": {"homes": "overlay"},
        "classes": [{"name": "small", "cpu": True, "memory_mib": 512, "gpu": 1}],
        "cluster": {"pools": [{"name": "a", "vm_size": "b", "labels": {"x": 1}, "disk": 3}]},
    }
    fields = [field for field, _ in await _errors(site, "templates/new", body, "PUT")]
    assert fields == [
        "cluster.subscription",
        "cluster.resource_group",
        "cluster.region",
        "cluster.pools.0.labels.x",
        "cluster.pools.0.disk",
        "ec2.hop_limits",
        "process.homes",
        "classes.0.cpu",
        "classes.0.gpu",
    ]
    planned = await _errors(site, "templates/plan", {"templates": {"a": {"provider": 1}}})
    assert planned == [("templates.a.provider", "must be text")]


async def test_no_more_errors_are_told_than_anyone_reads(site: Site) -> None:
    body = {**PROVISION, "usage": ["maybe"] * (TOLD_MOST + 1)}
    assert len(await _errors(site, "provisions", body)) == TOLD_MOST


async def test_a_misspelt_query_is_told_too(site: Site) -> None:
    answer = await site.http().get("/api/v1/nodes?limt=3&state=sleepy")
    assert [each["field"] for each in answer.json()["errors"]] == ["state.0", "limt"]
    assert answer.json()["errors"][1]["rule"] == "there is no such field; did you mean limit?"


@pytest.mark.parametrize("number", ["\u0661", "1_0", " 1", "1 ", "+1", "0x1"])
async def test_a_number_of_a_query_that_only_some_would_read_is_told_by_its_name(
    site: Site, number: str
) -> None:
    for path, field in (("/api/v1/nodes", "limit"), ("/api/v1/operations", "limit")):
        answer = await site.http().get(path, params={field: number})
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["field"]) == (422, field)


async def test_an_agent_may_say_more_than_its_server_knows_but_nothing_of_another_type(site: Site) -> None:
    http = site.http((await _join(site, await _machine(site))).json()["token"])
    said = {"booted": True, "mood": {"of": ["a", "newer", "agent"]}}
    assert (await http.post("/api/v1/agent/report", json=said)).status_code == 200
    refused = await http.post("/api/v1/agent/report", json={"booted": "yes"})
    assert (refused.status_code, refused.json()["rule"]) == (422, "must be true or false")
    for timeout in ("nan", "inf", "-1", "61"):
        refused = await http.get(f"/api/v1/agent/desired?timeout={timeout}")
        assert (refused.status_code, refused.json()["field"]) == (422, "timeout")


@pytest.mark.parametrize("name", ["{}", "{node_id}", "*", "a b", "%25"])
async def test_a_name_that_looks_like_part_of_a_route_is_a_name(site: Site, name: str) -> None:
    answer = await site.http().get(f"/api/v1/nodes/{name}")
    assert (answer.status_code, answer.json()["what"]) == (404, "node")


async def test_a_literal_path_does_not_hide_a_resource_of_that_name(site: Site) -> None:
    await site.template("plan")
    http = site.http()
    assert (await http.get("/api/v1/templates/plan")).json()["name"] == "plan"
    refused = await http.delete("/api/v1/templates/plan")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST, PUT")


def test_a_client_reads_answers_of_older_and_newer_servers() -> None:
    newer = {**Node.EXAMPLE, "colour": "blue", "sub": {"a": [1]}}
    assert msgspec.json.decode(json.dumps(newer), type=Node).id == Node.EXAMPLE["id"]
    older = {
        key: value for key, value in Operation.EXAMPLE.items() if key not in ("motion", "steps", "error")
    }
    read = msgspec.json.decode(json.dumps(older), type=Operation)
    assert (read.motion, read.steps, read.error) == (None, (), None)


async def test_the_document_says_of_each_request_and_answer_what_holds(site: Site) -> None:
    document = (await site.http("").get("/api/v1/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    assert not [name for name in schemas if not name.isalnum()], "each shape has one plain name"
    provision, node, report = schemas["ProvisionRequest"], schemas["Node"], schemas["Report"]
    assert (provision["required"], provision["additionalProperties"]) == (["template", "count", "run"], False)
    assert node["required"] == list(node["properties"]), "an answer holds all of its fields"
    assert "additionalProperties" not in report, "an agent may be newer"
    assert schemas["NodeState"]["enum"][:2] == ["created", "idle"], "in the order of the domain"
    console = schemas["Detail"]["properties"]["console_url"]
    assert console["description"].startswith("Where the provider's own")
    made = document["paths"]["/api/v1/provisions"]["post"]
    assert made["security"] == [{"token": []}] and "Location" in made["responses"]["202"]["headers"]
    assert [each["name"] for each in made["parameters"]] == ["Idempotency-Key"]
    listed = document["paths"]["/api/v1/nodes"]["get"]
    assert [each["name"] for each in listed["parameters"]] == ["state", "template", "cursor", "limit"]
    answer = listed["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/NodePage"}
