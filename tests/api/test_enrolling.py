"""Apps at the door: who gets in with which token, what they may say, and what they hear when it is over."""

from typing import Any

import httpx
import pytest

from muster.client import calls
from muster.controllers.reaper import Reaper
from muster.domain.access import Role
from muster.domain.errors import InvalidRequest, NotFound
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.domain.template import Runtime, TemplateSpec
from tests.api.site import Site

ENROL = "/api/v1/agent/enrol"
SPEC = TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE)
GOOD: dict[str, Any] = {
    "key": "drawn-at-random-1",
    "boot_id": "boot-1",
    "name": "web-1",
    "address": "http://127.0.0.1:8000/health",
    "beat_seconds": 5,
}


async def _enrol(site: Site, secret: str | None = None, **given: object) -> httpx.Response:
    shown = site.secrets[Role.ENROL] if secret is None else secret
    return await site.http(shown).post(ENROL, json={**GOOD, **given, "new_field": "ignored"})


async def _template(site: Site, **fields: Any) -> None:
    spec = TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE, **fields)
    await site.store.apply_template(spec, now=site.ports.clock.now())


async def _joined(
    site: Site, secret: str | None = None, **given: object
) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    answer = await _enrol(site, secret, **given)
    assert answer.status_code == 200, answer.text
    admitted: dict[str, Any] = answer.json()
    return site.http(admitted["token"]), admitted


async def _serving(site: Site, **given: object) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    app, admitted = await _joined(site, None, **given)
    assignment = admitted["desired"]["assignment_id"]
    answer = await app.post("/api/v1/agent/report", json={"booted": True, "attached": assignment})
    assert answer.status_code == 200, answer.text
    return app, admitted


async def test_an_app_is_admitted_and_runs_once_it_says_that_it_accepts(site: Site) -> None:
    await _template(site)
    app, admitted = await _joined(site)
    assert set(admitted) == {"node_id", "token", "desired"}
    assert admitted["desired"]["directive"] == "attach"
    assert admitted["desired"]["commands"] == []
    client = site.client()
    created = await client.send(calls.node(admitted["node_id"]))
    assert (created.state, created.provider, created.run) == ("created", "external", "web-1")
    assert created.deadline_at is not None
    assignment = admitted["desired"]["assignment_id"]
    early = await app.post("/api/v1/agent/report", json={"attached": assignment})
    assert early.status_code == 200
    assert (await client.send(calls.node(created.id))).state == "created", "nothing accepts yet"
    said = {"booted": True, "attached": assignment}
    assert (await app.post("/api/v1/agent/report", json=said)).json()["directive"] == "attach"
    running = await client.send(calls.node(created.id))
    assert (running.state, running.deadline_at, running.operation_id) == ("running", None, None)
    assert running.assignment_id == assignment
    again = await app.post("/api/v1/agent/report", json=said)
    assert again.json()["version"] == running.version, "said twice is said once"


async def test_the_same_key_is_the_same_node_with_a_fresh_token(site: Site) -> None:
    await _template(site)
    first, one = await _joined(site)
    assert (await first.post("/api/v1/agent/beat", json={"status": "starting"})).status_code == 200
    second, two = await _joined(site)
    assert one["node_id"] == two["node_id"]
    assert (await first.post("/api/v1/agent/beat")).status_code == 401
    assert (await second.post("/api/v1/agent/beat")).status_code == 200


async def test_another_key_is_another_node_and_no_node_is_condemned(site: Site) -> None:
    await _template(site)
    first, one = await _serving(site)
    _, two = await _serving(site, key="drawn-at-random-2")
    assert one["node_id"] != two["node_id"]
    assert (await first.post("/api/v1/agent/beat")).status_code == 200
    states = {node.state for node in (await site.client().send(calls.nodes(template="web"))).items}
    assert states == {"running"}


async def test_the_same_key_under_another_template_is_another_node(site: Site) -> None:
    await _template(site)
    other = TemplateSpec(name="api", provider="external", runtime=Runtime.SERVICE)
    await site.store.apply_template(other, now=site.ports.clock.now())
    made = await site.client().send(calls.make_token("apis", Role.ENROL, template="api", expires_in=60))
    answer = await _enrol(site, made.secret)
    _, mine = await _joined(site)
    assert answer.json()["node_id"] != mine["node_id"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "short"),
        ("key", ""),
        ("key", "x" * 257),
        ("key", 42),
        ("key", None),
        ("boot_id", ""),
        ("boot_id", "a\nb"),
        ("name", ""),
        ("name", "x" * 257),
        ("name", "a\x00b"),
        ("address", "ftp://host/x"),
        ("address", "http://"),
        ("address", "http://host:99999/"),
        ("address", "http://user:pw@host/"),
        ("address", "http://host/#part"),
        ("address", "not a url"),
        ("address", "http://" + "x" * 3000),
        ("beat_seconds", 1.99),
        ("beat_seconds", 30.01),
        ("beat_seconds", 0),
        ("beat_seconds", -5),
        ("beat_seconds", "5"),
        ("beat_seconds", True),
        ("beat_seconds", None),
    ],
)
async def test_an_app_that_makes_no_sense_is_refused_by_field(site: Site, field: str, value: object) -> None:
    await _template(site)
    answer = await site.http(site.secrets[Role.ENROL]).post(ENROL, json={**GOOD, field: value})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == (422, "invalid_request", field)
    assert "pw@" not in answer.text
    assert (await site.client().send(calls.nodes(template="web"))).items == ()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"key": NaN}'])
async def test_what_is_no_object_is_refused(site: Site, body: bytes) -> None:
    await _template(site)
    http = site.http(site.secrets[Role.ENROL])
    answer = await http.post(ENROL, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


async def test_only_an_enrolment_token_enrols_and_it_does_nothing_else(site: Site) -> None:
    await _template(site)
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        refused = await _enrol(site, site.secrets[role])
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "needs the role enrol" in refused.json()["detail"]
    http = site.http(site.secrets[Role.ENROL])
    for path in ("nodes", "operations", "events", "tokens", "templates", "pools", "installation"):
        assert (await http.get(f"/api/v1/{path}")).status_code == 403
    assert (await http.post("/api/v1/agent/beat")).status_code == 401


async def test_a_token_that_ended_says_how(site: Site) -> None:
    await _template(site)
    admin = site.client()
    made = await admin.send(calls.make_token("apps", Role.ENROL, template="web"))
    assert (made.role, made.template) == (Role.ENROL, "web")
    app, _ = await _joined(site, made.secret)
    await admin.send(calls.revoke_token(made.id))
    refused = await _enrol(site, made.secret, key="drawn-at-random-2")
    assert refused.status_code == 401 and "was revoked" in refused.json()["detail"]
    assert (await app.post("/api/v1/agent/beat")).status_code == 200, "who is in stays in"
    brief = await admin.send(calls.make_token("apps", Role.ENROL, template="web", expires_in=0.001))
    refused = await _enrol(site, brief.secret)
    assert refused.status_code == 401 and "has expired" in refused.json()["detail"]
    assert (await _enrol(site, "muster_nonsense")).status_code == 401


async def test_an_enrolment_token_names_a_template_that_is_there(site: Site) -> None:
    admin = site.client()
    with pytest.raises(NotFound):
        await admin.send(calls.make_token("apps", Role.ENROL, template="none"))
    with pytest.raises(InvalidRequest, match="template"):
        await admin.send(calls.make_token("apps", Role.ENROL))
    with pytest.raises(InvalidRequest, match="template"):
        await admin.send(calls.make_token("ops", Role.OPERATOR, template="ci"))


async def test_machines_are_made_not_enrolled(site: Site) -> None:
    with pytest.raises(InvalidRequest, match="must have the provider external"):
        await site.client().send(calls.make_token("apps", Role.ENROL, template="ci"))
    made = TemplateSpec(name="web", provider="process")
    await site.store.apply_template(made, now=site.ports.clock.now())
    answer = await _enrol(site)
    assert answer.status_code == 422
    assert "must have the provider external" in answer.json()["detail"]


async def test_a_full_house_says_so(site: Site) -> None:
    await _template(site, max_nodes=1)
    await _joined(site)
    answer = await _enrol(site, key="drawn-at-random-2")
    assert (answer.status_code, answer.json()["code"]) == (409, "cap_reached")
    assert (await _enrol(site)).status_code == 200, "who is in may come again"


async def test_apps_can_not_be_provisioned(site: Site) -> None:
    await _template(site)
    with pytest.raises(InvalidRequest, match="apps that enrol themselves"):
        await site.client().send(calls.provision(ProvisionRequest(template="web", count=1, run="run-1")))


async def test_an_app_that_an_operator_took_out_hears_removed_until_it_left(site: Site) -> None:
    await _template(site)
    app, admitted = await _serving(site)
    client = site.client()
    assert (await app.post("/api/v1/agent/beat", json={"status": "ready"})).status_code == 200
    await client.send(calls.terminate(admitted["node_id"]))
    for _ in range(2):
        answer = await app.post("/api/v1/agent/beat", json={"status": "ready"})
        assert (answer.status_code, answer.json()["code"]) == (410, "removed")
    assert (await app.post("/api/v1/agent/report", json={"booted": True})).json()["code"] == "removed"
    assert (await app.get("/api/v1/agent/desired")).json()["directive"] == "leave"
    assert (await _enrol(site)).json()["code"] == "removed", "the same key stays out"
    reaper = Reaper(site.ports, Settings())
    await reaper.reconcile()
    assert (await client.send(calls.node(admitted["node_id"]))).state == "terminating"
    for _ in range(2):
        assert (await app.post("/api/v1/agent/report", json={"left": True})).json()["directive"] == "leave"

    async def gone() -> bool:
        await reaper.reconcile()
        return (await client.send(calls.node(admitted["node_id"]))).state == "terminated"

    await site.until(gone)
    assert (await app.post("/api/v1/agent/beat")).json()["code"] == "removed"
    assert (await app.post("/api/v1/agent/report", json={"left": True})).status_code == 200
    assert (await _enrol(site)).json()["code"] == "removed"
    assert (await _enrol(site, key="drawn-at-random-2")).status_code == 200


async def test_an_app_that_leaves_is_gone_by_its_own_word(site: Site) -> None:
    await _template(site)
    app, admitted = await _serving(site)
    answer = await app.post("/api/v1/agent/report", json={"left": True})
    assert answer.json()["directive"] == "leave"
    left = await site.client().send(calls.node(admitted["node_id"]))
    assert left.state in ("terminating", "terminated") and left.reason == "left"
    late = await app.post("/api/v1/agent/beat", json={"status": "ready"})
    assert (late.status_code, late.json()["code"]) == (410, "lost")


async def test_a_machine_cannot_leave_and_an_app_has_nothing_to_detach_from(site: Site) -> None:
    await _template(site)
    app, admitted = await _serving(site)
    said = {"detached": admitted["desired"]["assignment_id"]}
    assert (await app.post("/api/v1/agent/report", json=said)).status_code == 200
    assert (await site.client().send(calls.node(admitted["node_id"]))).state == "running"
    client = site.client()
    await site.provisioned(client)
    machine = site.http(site.agents[0].token)
    assert (await machine.post("/api/v1/agent/report", json={"left": True})).status_code == 200
    assert (await client.send(calls.node(site.agents[0].node_id))).state == "running"


@pytest.mark.parametrize("said", [{"status": "happy"}, {"status": 1}, {"status": "ready", "reason": "a\nb"}])
async def test_an_unknown_word_is_refused(site: Site, said: dict[str, Any]) -> None:
    await _template(site)
    app, _ = await _serving(site)
    answer = await app.post("/api/v1/agent/beat", json=said)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_what_it_says_is_written_down_with_its_pace(site: Site) -> None:
    await _template(site)
    app, admitted = await _serving(site, beat_seconds=30)
    said = {"status": "degraded", "reason": "db is slow"}
    assert (await app.post("/api/v1/agent/beat", json=said)).status_code == 200
    node_id = admitted["node_id"]

    async def written() -> bool:
        found = (await site.store.vitals([node_id]))[node_id]
        return (found.said, found.said_reason) == ("degraded", "db is slow")

    await site.until(written)
    vitals = (await site.store.vitals([node_id]))[node_id]
    assert vitals.stale_after == Settings().flush_every + 3 * 30


async def test_what_an_app_says_counts_also_when_its_beats_are_answered_from_memory(site: Site) -> None:
    await _template(site)
    app, admitted = await _serving(site)
    heartbeats = site.api.context.plane.enrolment.heartbeats
    for said in ({}, {"status": "ready"}, {"status": "degraded", "reason": "the database is slow"}):
        assert (await app.post("/api/v1/agent/beat", json=said)).status_code == 200
    await heartbeats.flush()
    vitals = (await site.store.vitals([admitted["node_id"]]))[admitted["node_id"]]
    assert (vitals.said, vitals.said_reason) == ("degraded", "the database is slow")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 3000,
        b"{" * 10,
        b"[]",
        b'{"status": "splendid"}',
        b'{"status": 7}',
        b'{"activity": -1}',
        b'{"activity": 1e400}',
        b'{"status": "degraded", "reason": 9}',
        b'{"x": "' + b"x" * 5000 + b'"}',
    ],
)
async def test_a_beat_that_makes_no_sense_is_refused_and_changes_nothing(site: Site, body: bytes) -> None:
    await _template(site)
    app, admitted = await _serving(site)
    for _ in range(2):  # asked, and from memory
        answer = await app.post("/api/v1/agent/beat", content=body)
        assert answer.status_code in (400, 413, 422), answer.text
        assert (await app.post("/api/v1/agent/beat", json={"status": "ready"})).status_code == 200
    assert (await site.store.node(admitted["node_id"])).state == "running"
