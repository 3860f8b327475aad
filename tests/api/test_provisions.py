import json

import pytest

from muster.client import calls
from muster.domain.command import Execution
from muster.domain.errors import (
    Ambiguous,
    Gone,
    IdempotencyMismatch,
    InvalidRequest,
    NotCancellable,
    NotFound,
)
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.domain.requests import ProvisionRequest
from tests.api.site import Site

ASKED = ProvisionRequest(template="ci", count=2, run="run-1")


async def test_a_provision_hands_over_its_nodes_and_a_release_takes_them_back(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client, count=2)
    assert operation.status is Status.SUCCEEDED
    assert operation.percent == 100.0
    assert len(operation.members) == 2
    nodes = (await client.send(calls.nodes(state=["running"]))).items
    assert {node.id for node in nodes} == {member.node_id for member in operation.members}
    assert all(node.run == "run-1" for node in nodes)

    released = await site.ended(client, await client.send(calls.release(operation_id=operation.operation_id)))
    assert released.kind is Kind.RELEASE
    assert released.status is Status.SUCCEEDED
    pool = (await client.send(calls.pools())).items[0]
    assert (pool.idle, pool.running, pool.used) == (2, 0, 2)


async def test_an_operations_nodes_are_told_at_once_and_stay_known_when_they_serve_others(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client, count=2)
    mine = {member.node_id for member in operation.members}
    running = (await client.send(calls.operation_nodes(operation.operation_id))).items
    assert {node.id for node in running} == mine
    assert all(node.state == "running" and node.health is not None for node in running)

    released = await client.send(calls.release(operation_id=operation.operation_id))
    await site.ended(client, released)
    await site.provisioned(client, count=1, run="run-2")
    now = (await client.send(calls.operation_nodes(operation.operation_id))).items
    assert {node.id for node in now} == mine
    assert sorted(node.state for node in now) == ["idle", "running"]
    with pytest.raises(NotFound):
        await client.send(calls.operation_nodes("op-nobody"))


async def test_an_accepted_request_says_where_its_operation_is(site: Site) -> None:
    body = {"template": "ci", "count": 1, "run": "run-1"}
    answer = await site.http().post("/api/v1/provisions", json=body)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/operations/{answer.json()['operation_id']}"


async def test_the_payload_has_exactly_the_promised_fields(site: Site) -> None:
    operation = await site.provisioned(site.client())
    stream = await site.http().get(f"/api/v1/operations/{operation.operation_id}/events")
    last = [line for line in stream.text.splitlines() if line.startswith("data: ")][-1]
    payload = json.loads(last.removeprefix("data: "))
    assert list(payload) == [
        *("operation_id", "kind", "status", "phase", "label", "step", "total_steps", "message", "percent"),
        *(
            "motion",
            "eta_seconds",
            "elapsed_seconds",
            "started_at",
            "updated_at",
            "deadline_at",
            "parts",
            "detail",
        ),
        "error",
    ]
    assert payload["started_at"].endswith("Z")
    assert set(payload["parts"][0]) == {"id", "name", "state", "tone", "detail", "count", "since"}
    assert payload["error"] is None


async def test_a_failed_provision_says_why_and_what_to_do(site: Site) -> None:
    await site.template("tiny", max_nodes=1)
    client = site.client()
    asked = ProvisionRequest(template="tiny", count=2, run="run-1")
    operation = await site.ended(client, await client.send(calls.provision(asked)))
    assert operation.status is Status.FAILED
    assert operation.error is not None
    shown = (await site.http().get("/codes", headers={"Authorization": ""})).text
    assert f'<a id="{operation.error.help.removeprefix("/codes#")}"></a>' in shown
    assert (operation.error.code, operation.error.reason) == ("provision_failed", "above_cap")
    assert operation.error.advice.startswith("ask for fewer nodes")


async def test_the_same_key_is_the_same_request_and_another_body_is_refused(site: Site) -> None:
    client = site.client()
    first = await client.send(calls.provision(ASKED, key="once"))
    again = await client.send(calls.provision(ASKED, key="once"))
    assert again.operation_id == first.operation_id
    other = ProvisionRequest(template="ci", count=1, run="run-1")
    with pytest.raises(IdempotencyMismatch, match=first.operation_id):
        await client.send(calls.provision(other, key="once"))


async def test_a_run_with_several_provisions_must_be_released_by_name_or_latest(site: Site) -> None:
    client = site.client()
    first = await site.provisioned(client)
    second = await site.provisioned(client)
    with pytest.raises(Ambiguous) as refused:
        await client.send(calls.release(run="run-1"))
    assert set(refused.value.operation_ids) == {first.operation_id, second.operation_id}
    await site.ended(client, await client.send(calls.release(run="run-1", latest=True)))
    left = (await client.send(calls.nodes(state=["running"]))).items
    assert [node.operation_id for node in left] == [first.operation_id]


async def test_named_assignments_are_released_alone(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client, count=2)
    one = operation.members[0].assignment_id
    asked = calls.release(operation_id=operation.operation_id, assignment_ids=[one])
    await site.ended(client, await client.send(asked))
    left = (await client.send(calls.nodes(state=["running"]))).items
    assert [node.assignment_id for node in left] == [operation.members[1].assignment_id]


async def test_a_waiting_provision_says_why_and_can_be_cancelled_once_and_again(site: Site) -> None:
    site.lazy = True
    client = site.client()
    operation = await client.send(calls.provision(ASKED))

    async def booting() -> bool:
        return bool((await client.send(calls.nodes(state=["created"]))).items)

    await site.until(booting)
    why = await client.send(calls.why(operation.operation_id))
    assert "boot" in why.waits_for
    assert why.position is None
    await client.send(calls.cancel(operation.operation_id))
    ended = await site.ended(client, operation)
    assert ended.status is Status.CANCELLED
    assert (await client.send(calls.cancel(operation.operation_id))).status is Status.CANCELLED


async def test_a_finished_provision_is_not_cancelled_but_released(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    with pytest.raises(NotCancellable, match="release it instead"):
        await client.send(calls.cancel(operation.operation_id))


async def test_running_nodes_get_more_time(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    before = await client.send(calls.node(operation.members[0].node_id))
    (after,) = (await client.send(calls.extend(operation.operation_id, 600.0))).items
    assert after.deadline_at is not None
    assert before.deadline_at is not None
    assert after.deadline_at > before.deadline_at
    assert after.deadline_source == "operator"


@pytest.mark.parametrize("by", [0, -1, 1e12, "30m", True, None])
async def test_more_time_must_be_a_sensible_number_of_seconds(site: Site, by: object) -> None:
    answer = await site.http().post("/api/v1/operations/op-1/extend", json={"by": by})
    assert answer.status_code == 422
    assert answer.json()["field"] == "by"


async def test_a_node_is_drained_and_ended_by_hand(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    name = operation.members[0].node_id
    assert (await client.send(calls.drain(name))).drain
    assert (await client.send(calls.terminate(name))).state is NodeState.TERMINATING
    assert (await client.send(calls.terminate(name))).id == name


async def test_a_paused_template_says_so(site: Site) -> None:
    client = site.client()
    assert (await client.send(calls.pause("ci"))).templates == ("ci",)
    assert (await client.send(calls.pause())).all
    assert (await client.send(calls.template("ci"))).paused
    assert (await client.send(calls.pools())).paused
    assert not (await client.send(calls.resume())).all
    assert (await client.send(calls.resume("ci"))).templates == ()
    with pytest.raises(NotFound):
        await client.send(calls.pause("nope"))


async def test_nothing_is_executed_on_nodes_that_were_given_back(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    await site.ended(client, await client.send(calls.release(operation_id=operation.operation_id)))
    with pytest.raises(Gone):
        await client.send(calls.execute(Execution(argv=("true",)), operation_id=operation.operation_id))
    with pytest.raises(NotFound, match="running nodes"):
        await client.send(calls.execute(Execution(argv=("true",)), run="run-1"))


async def test_only_a_provision_can_be_released(site: Site) -> None:
    client = site.client()
    operation = await site.provisioned(client)
    release = await client.send(calls.release(operation_id=operation.operation_id))
    with pytest.raises(InvalidRequest, match="must be a provision"):
        await client.send(calls.release(operation_id=release.operation_id))
