"""Every event of what a person did says who it was."""

import json
from typing import Any

from muster.api.access import Access
from muster.api.router import ROOT
from muster.api.routes import TABLES
from muster.client import calls
from muster.domain import node as nodes
from muster.domain import undelivered
from muster.domain.access import Role
from muster.domain.command import Execution
from muster.domain.ids import OperationId
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from tests.api.site import Site
from tests.contracts.message_contract import message
from tests.harness.azure import SPEC


async def test_what_is_done_by_hand_is_told_with_who_did_it(site: Site) -> None:
    admin, operator = site.client(Role.ADMIN), site.client(Role.OPERATOR)
    await admin.send(calls.apply(TemplateSpec(name="ci", provider="simulated")))
    held = await site.provisioned(operator, count=2)
    node_id = held.members[0].node_id
    await admin.send(calls.apply(TemplateSpec(name="ci", provider="simulated", max_nodes=7)))
    await admin.send(calls.limit(9))
    made = await admin.send(calls.make_token("laptop", Role.VIEWER))
    await admin.send(calls.revoke_token(made.id))
    await operator.send(calls.pause("ci"))
    await operator.send(calls.resume("ci"))
    await operator.send(calls.extend(held.operation_id, 60.0))
    await operator.send(calls.drain(node_id))
    await operator.send(calls.terminate(node_id))
    await operator.send(calls.pause())
    await operator.send(calls.resume())

    found = (await site.http().get("/api/v1/events", params={"last": 1000})).json()["items"]
    who = {token["id"]: token["name"] for token in (await site.http().get("/api/v1/tokens")).json()["items"]}
    done = [(each["name"], each["actor"]) for each in found if each["actor"]]
    assert all(actor.rpartition(" (")[2].rstrip(")") in who for _, actor in done), done
    assert [(name, actor.split(" ")[0]) for name, actor in done] == [
        ("applied", "admin"),
        ("submitted", "operator"),
        ("adjusted", "admin"),
        ("limited", "admin"),
        ("token_added", "admin"),
        ("token_revoked", "admin"),
        ("paused", "operator"),
        ("resumed", "operator"),
        ("extend", "operator"),
        ("extend", "operator"),
        ("drained", "operator"),
        ("condemn", "operator"),
        ("paused", "operator"),
        ("resumed", "operator"),
    ]
    assert site.secrets[Role.OPERATOR] not in json.dumps(found)


async def test_a_cancel_is_told_with_who_asked_for_it(site: Site) -> None:
    site.lazy = True
    operator = site.client(Role.OPERATOR)
    body = {"template": "ci", "count": 1, "run": "run-1"}
    asked = (await site.http(site.secrets[Role.OPERATOR]).post("/api/v1/provisions", json=body)).json()
    await operator.send(calls.cancel(asked["operation_id"]))
    found = (await site.http().get("/api/v1/events", params={"last": 1000})).json()["items"]
    (told,) = [each["actor"] for each in found if each["name"] == "cancel_requested"]
    assert told.startswith("operator (tok-")


WITHOUT_EFFECT = {
    "POST /templates/plan",  # says what an apply would do
    "PUT /blobs",  # an archive by its content; only a command that names it makes something of it
}

OF_SESSIONS = {"POST /sign-out", "POST /device/{user_code}/confirm", "POST /device/{user_code}/deny"}
"""In tests/api/test_sign_in.py and tests/api/test_device_logins.py."""


async def _failed(site: Site) -> str:
    """A node whose boot failed, and that is kept for a look."""
    client = site.client()
    asked = ProvisionRequest(template="ci", count=1, run="broken")
    made = await client.send(calls.provision(asked))
    found: list[Node] = []

    async def created() -> bool:
        view = await site.store.view(OperationId(made.operation_id))
        found[:] = view.nodes
        return bool(found)

    await site.until(created)
    now = site.ports.clock.now()
    change = nodes.fail(found[0], now=now, reason=Reason.BOOT_SCRIPT_FAILED, deadline_at=now + 600, hold=True)
    return (await site.store.apply(change)).id


async def test_every_request_that_changes_something_is_in_the_audit(site: Site) -> None:
    """One act for each route of people and programs that is no read; a new route has to be added here."""
    site.hold.set()
    admin, operator = site.client(), site.client(Role.OPERATOR)
    await admin.send(calls.apply(TemplateSpec(name="batch", provider="aks", tables={"cluster": SPEC})))
    held, other = [await site.provisioned(operator, run=run) for run in ("held", "other")]
    (command,) = await operator.send(calls.execute(Execution(argv=("true",)), operation_id=held.operation_id))
    token = await admin.send(calls.make_token("brief", Role.VIEWER))
    site.lazy = True
    failed = await _failed(site)
    waiting = await operator.send(calls.provision(ProvisionRequest(template="ci", count=1, run="waiting")))
    for number in (1, 2):
        refused = undelivered.failed(message(number), "it answered 404", now=20.0, again_at=None)
        await site.store.messages.keep_undelivered(refused)
    node, operation, execution = other.members[0].node_id, held.operation_id, {"argv": ["true"]}
    asked = {"template": "ci", "count": 1, "run": "asked"}
    acts: list[tuple[str, dict[str, str], object, str]] = [
        ("POST /provisions", {}, asked, "submitted"),
        ("POST /runs", {}, {"provision": {**asked, "run": "run"}, "execution": execution}, "submitted"),
        ("POST /commands", {}, {"operation_id": operation, "execution": execution}, "pending"),
        ("POST /commands/{command_id}/cancel", {"command_id": command.id}, None, "cancel_requested"),
        ("POST /operations/{operation_id}/extend", {"operation_id": operation}, {"by": 60}, "extend"),
        (
            "POST /operations/{operation_id}/cancel",
            {"operation_id": waiting.operation_id},
            None,
            "cancel_requested",
        ),
        ("POST /templates/{name}/pause", {"name": "ci"}, None, "paused"),
        ("POST /findings/{finding}/acknowledge", {"finding": "paused.ci"}, None, "acknowledged"),
        ("POST /findings/{finding}/unacknowledge", {"finding": "paused.ci"}, None, "unacknowledged"),
        ("POST /templates/{name}/resume", {"name": "ci"}, None, "resumed"),
        ("POST /pause", {}, None, "paused"),
        ("POST /resume", {}, None, "resumed"),
        ("POST /nodes/{node_id}/hold", {"node_id": failed}, {"seconds": 60}, "held"),
        ("POST /nodes/{node_id}/drain", {"node_id": node}, None, "drained"),
        ("POST /nodes/{node_id}/terminate", {"node_id": node}, None, "condemn"),
        ("POST /releases", {}, {"operation_id": operation}, "submitted"),
        ("POST /clusters", {}, {"name": "c1", "template": "batch"}, "submitted"),
        ("POST /clusters/{name}/delete", {"name": "c1"}, None, "cancel_requested"),
        ("PUT /installation", {}, {"max_nodes": 9}, "limited"),
        ("PUT /templates/{name}", {"name": "more"}, {"provider": "simulated"}, "applied"),
        ("POST /templates/{name}/retire", {"name": "more"}, {}, "applied"),
        ("POST /webhooks/resend", {}, {"webhook": "ops", "ids": ["ops.ev-1"]}, "webhook_resent"),
        ("POST /webhooks/forget", {}, {"webhook": "ops", "ids": ["ops.ev-2"]}, "webhook_forgotten"),
        ("POST /tokens", {}, {"name": "x", "role": "viewer"}, "token_added"),
        ("POST /tokens/{token_id}/revoke", {"token_id": token.id}, None, "token_revoked"),
    ]
    needed = {
        f"{route.method} {route.path}": route.access.role
        for table in TABLES
        for route in table.routes
        if route.method != "GET" and route.access in (Access.VIEWER, Access.OPERATOR, Access.ADMIN)
    }
    assert needed.keys() == {route for route, *_ in acts} | WITHOUT_EFFECT | OF_SESSIONS
    for route, names, body, name in acts:
        role = needed[route]
        method, path = route.format(**names).split(" ")
        answer = await site.http(site.secrets[role or Role.ADMIN]).request(method, ROOT + path, json=body)
        assert answer.is_success, (path, answer.text)
        told = (await site.http().get(f"{ROOT}/audit", params={"limit": 1000})).json()["items"]
        since = [(each["name"], each["actor"].split(" ")[0]) for each in told[-2:]]
        assert (name, role) in since, (path, since)


async def test_the_audit_is_filtered_paged_and_for_admins(site: Site) -> None:
    admin, operator = site.client(), site.client(Role.OPERATOR)
    for _ in range(3):
        await operator.send(calls.pause("ci"))
        await operator.send(calls.resume("ci"))
    await admin.send(calls.limit(9))

    async def told(**asked: Any) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        while True:
            answer = (await site.http().get(f"{ROOT}/audit", params=asked)).json()
            found += [(each["name"], each["actor"].split(" ")[0]) for each in answer["items"]]
            if answer["next"] is None:
                return found
            asked["cursor"] = answer["next"]

    by_operator = [("paused", "operator"), ("resumed", "operator")] * 3
    assert await told(limit=2) == [*by_operator, ("limited", "admin")]
    assert await told(limit=1, who="OPERATOR") == by_operator
    assert (await told(action=["limited", "resumed"]))[-2:] == [("resumed", "operator"), ("limited", "admin")]
    assert await told(entity="ci") == by_operator
    assert await told(entity="node") == []
    assert await told(since="2100-01-01T00:00:00Z") == [] == await told(until="2001-01-01T00:00:00Z")
    assert len(await told(until="2100-01-01T00:00:00Z", since="2001-01-01T00:00:00Z")) == 7
    for role in (Role.VIEWER, Role.OPERATOR):
        assert (await site.http(site.secrets[role]).get(f"{ROOT}/audit")).status_code == 403
