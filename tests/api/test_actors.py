"""Every event of what somebody did says who it was."""

import json

from muster.client import calls
from muster.domain.access import Role
from muster.domain.template import TemplateSpec
from tests.api.site import Site


async def test_what_is_done_by_hand_is_told_with_who_did_it(site: Site) -> None:
    admin, operator = site.client(Role.ADMIN), site.client(Role.OPERATOR)
    await admin.send(calls.apply(TemplateSpec(name="ci", provider="simulated")))
    held = await site.provisioned(operator, count=2)
    node_id = held.members[0].node_id
    await admin.send(calls.apply(TemplateSpec(name="ci", provider="simulated", max_nodes=7)))
    await admin.send(calls.limit(9))
    made = await admin.send(calls.make_token("laptop", "viewer"))
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
