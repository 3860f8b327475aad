import asyncio
from typing import Any

import httpx
import pytest

from muster.client import calls
from muster.controllers.reaper import Reaper
from muster.domain.command import Execution
from muster.domain.errors import StoreUnavailable
from muster.domain.ids import NodeId
from muster.domain.node import Node
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.wire.agent import POLL_MOST
from muster_simulation.cloud.provider import proof_of
from tests.api.site import AGENT, Site

JOIN = "/api/v1/agent/join"


async def _machine(site: Site) -> str:
    """A machine with a record and without an agent."""
    site.lazy = True
    client = site.client()
    await client.send(calls.provision(ProvisionRequest(template="ci", count=1, run="run-1")))

    async def there() -> bool:
        return bool((await client.send(calls.nodes(state=["created"]))).items)

    await site.until(there)
    (node,) = (await client.send(calls.nodes(state=["created"]))).items
    return node.machine_id


async def _join(site: Site, machine_id: str, key: str = "key-1") -> httpx.Response:
    said = {"proof": proof_of(machine_id), "key": key, "boot_id": "boot-1", "new_field": "ignored"}
    return await site.http("").post(JOIN, json=said)


async def _joined(site: Site) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    answer = await _join(site, await _machine(site))
    assert answer.status_code == 200
    admitted: dict[str, Any] = answer.json()
    return site.http(admitted["token"]), admitted


async def test_a_join_says_all_that_an_agent_needs(site: Site) -> None:
    await site.template(boot_script="echo booting\n")
    answer = await _join(site, await _machine(site))
    admitted = answer.json()
    assert set(admitted) == {"node_id", "token", "beat_seconds", "boot", "desired"}
    assert admitted["boot"] == {"script": "echo booting\n", "env": {}}
    assert admitted["beat_seconds"] == 5.0
    assert admitted["desired"]["directive"] == "attach"
    assert admitted["desired"]["run"] == "run-1"
    assert admitted["desired"]["commands"] == []
    assert admitted["desired"]["dead_man"] > 0


async def test_an_invented_proof_is_turned_away(site: Site) -> None:
    answer = await site.http("").post(JOIN, json={"proof": "nonsense", "key": "k", "boot_id": "b"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_joining_again_gives_a_new_token_and_the_old_one_dies_at_once(site: Site) -> None:
    machine_id = await _machine(site)
    first = site.http((await _join(site, machine_id)).json()["token"])
    assert (await first.post("/api/v1/agent/beat")).status_code == 200
    assert (await first.post("/api/v1/agent/beat")).status_code == 200  # from memory
    second = site.http((await _join(site, machine_id)).json()["token"])
    assert (await first.post("/api/v1/agent/beat")).status_code == 401
    assert (await second.post("/api/v1/agent/beat")).status_code == 200


async def test_a_second_machine_with_the_same_identity_is_turned_away(site: Site) -> None:
    machine_id = await _machine(site)
    await _join(site, machine_id)
    answer = await _join(site, machine_id, key="another")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_beat_answers_with_the_version_of_the_record_also_from_memory(site: Site) -> None:
    node, admitted = await _joined(site)
    first = (await node.post("/api/v1/agent/beat", json={"activity": 1})).json()
    told = (await node.post("/api/v1/agent/report", json={"booted": True})).json()
    assert told["version"] > first["version"]
    assert (await node.post("/api/v1/agent/beat")).json() == {"version": told["version"]}
    await site.api.context.plane.enrolment.heartbeats.flush()
    shown = await site.client().send(calls.node(admitted["node_id"]))
    assert shown.last_seen_at is not None


async def test_no_beat_is_answered_from_memory_while_the_store_takes_no_writes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = await _joined(site)
    assert (await node.post("/api/v1/agent/beat")).status_code == 200
    away = StoreUnavailable("the store is away")

    async def unanswered(_token: str) -> NodeId:
        raise away

    monkeypatch.setattr(site.api.context.plane.enrolment, "identify", unanswered)
    assert (await node.post("/api/v1/agent/beat")).status_code == 200  # from memory
    site.api.context.metrics.took("lease_duty", 0.1, away, now=1.0)
    assert (await node.post("/api/v1/agent/beat")).status_code == 503
    site.api.context.metrics.took("lease_duty", 0.1, now=2.0)
    assert (await node.post("/api/v1/agent/beat")).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("POST", "beat"), ("GET", "stream")])
@pytest.mark.parametrize("known", [True, False])
async def test_answers_in_front_of_the_routes_have_the_same_headers_as_others(
    site: Site, method: str, path: str, known: bool
) -> None:
    _, admitted = await _joined(site)
    token = {"Authorization": f"Bearer {admitted['token'] if known else 'unknown'}"}
    async with site.http().stream(method, f"{AGENT}/{path}", headers=token) as answer:
        assert answer.status_code == (200 if known else 401)
        assert answer.headers.get_list("cache-control") == ["no-store"]
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


async def test_a_token_that_died_is_refused_although_it_was_remembered(site: Site) -> None:
    machine = await _machine(site)
    old = {"Authorization": f"Bearer {(await _join(site, machine)).json()['token']}"}
    http = site.http()
    for _ in range(2):
        assert (await http.post("/api/v1/agent/beat", headers=old)).status_code == 200
    assert (await _join(site, machine)).status_code == 200
    assert (await http.post("/api/v1/agent/beat", headers=old)).status_code == 401


async def test_a_node_whose_time_is_over_hears_it_with_its_next_beat(site: Site) -> None:
    node, admitted = await _joined(site)
    assert (await node.post("/api/v1/agent/beat")).status_code == 200
    client = site.client()
    await client.send(calls.terminate(admitted["node_id"]))
    assert (await node.get("/api/v1/agent/desired")).json()["directive"] == "stop"

    reaper = Reaper(site.ports, Settings())

    async def gone() -> bool:
        await reaper.reconcile()
        return not (await client.send(calls.nodes())).items

    await site.until(gone)
    answer = await node.post("/api/v1/agent/beat")
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    assert (await node.post("/api/v1/agent/report", json={})).status_code == 410


async def test_what_was_read_before_a_write_is_not_remembered_after_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = await _joined(site)
    enrolment, client = site.api.context.plane.enrolment, site.client()
    real = enrolment.beat

    async def overtaken(node_id: NodeId, **said: Any) -> Node:
        found = await real(node_id, **said)
        await client.send(calls.terminate(node_id))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(enrolment, "beat", overtaken)
        older = (await node.post("/api/v1/agent/beat")).json()["version"]
    assert (await node.post("/api/v1/agent/beat")).json()["version"] > older


async def test_a_token_that_dies_while_the_store_is_asked_about_it_is_not_remembered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await _machine(site)
    old = site.http((await _join(site, machine)).json()["token"])
    enrolment = site.api.context.plane.enrolment
    real = enrolment.identify

    async def overtaken(token: str) -> NodeId:
        found = await real(token)
        patch.undo()
        await _join(site, machine)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(enrolment, "identify", overtaken)
        assert (await old.post("/api/v1/agent/beat")).status_code == 200
    assert (await old.post("/api/v1/agent/beat")).status_code == 401


async def test_a_beat_is_remembered_for_no_longer_when_the_clock_is_set_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = await _joined(site)
    clock, asked = site.ports.clock, []
    enrolment = site.api.context.plane.enrolment
    real = enrolment.identify

    async def counted(token: str) -> NodeId:
        asked.append(token)
        return await real(token)

    monkeypatch.setattr(enrolment, "identify", counted)
    for _ in range(2):
        assert (await node.post("/api/v1/agent/beat")).status_code == 200
    assert len(asked) == 1
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() - 3600.0)
    assert (await node.post("/api/v1/agent/beat")).status_code == 200
    assert len(asked) == 2


async def test_a_long_poll_is_held_until_something_changes(site: Site) -> None:
    node, admitted = await _joined(site)
    known = admitted["desired"]["version"]
    query = {"known": known, "timeout": 30}
    poll = asyncio.create_task(node.get("/api/v1/agent/desired", params=query))
    await site.client().send(calls.terminate(admitted["node_id"]))
    answer = await asyncio.wait_for(poll, 5)
    assert answer.json()["directive"] == "stop"
    assert answer.json()["version"] > known


async def test_a_long_poll_is_answered_when_the_server_stops(site: Site) -> None:
    node, admitted = await _joined(site)
    query = {"known": admitted["desired"]["version"], "timeout": 30}
    poll = asyncio.create_task(node.get("/api/v1/agent/desired", params=query))

    async def held() -> bool:
        topic = f"node/{admitted['node_id']}"
        return bool(site.ports.wakeups._listeners.get(topic))  # type: ignore[attr-defined]

    await site.until(held)
    site.api.close()
    answer = await asyncio.wait_for(poll, 5)
    assert answer.json()["version"] == admitted["desired"]["version"]


@pytest.mark.parametrize("query", [f"timeout={POLL_MOST + 1}", "timeout=-1", "timeout=nan", "known=x"])
async def test_a_poll_that_makes_no_sense_is_refused(site: Site, query: str) -> None:
    node, _ = await _joined(site)
    assert (await node.get(f"/api/v1/agent/desired?{query}")).status_code == 422


async def test_a_node_speaks_only_for_itself(site: Site) -> None:
    site.hold.set()
    client = site.client()
    await site.provisioned(client, count=2)
    first, second = await client.send(calls.execute(Execution(argv=("x",)), run="run-1"))
    mine = next(agent for agent in site.agents if agent.node_id == first.node_id)
    http = site.http(mine.token)
    root = f"/api/v1/agent/commands/{second.id}"
    answers = [
        await http.post(f"{root}/output?offset=0", content=b"lies"),
        await http.post(f"{root}/state", json={"state": "exited", "exit_code": 0}),
        await http.put(f"{root}/artifact", content=b"lies"),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    for path in ("nodes", "operations", "events", "tokens", f"commands/{first.id}"):
        assert (await http.get(f"/api/v1/{path}")).status_code == 401


async def test_a_gap_in_the_output_is_answered_with_what_is_kept(site: Site) -> None:
    site.hold.set()
    client = site.client()
    await site.provisioned(client)
    (command,) = await client.send(calls.execute(Execution(argv=("x",)), run="run-1"))
    assert await anext(client.follow(command.id)) == b"hello from 0\n"
    node = site.http(site.agents[0].token)
    path = f"/api/v1/agent/commands/{command.id}/output"
    gap = await node.post(path, params={"offset": 1000}, content=b"late")
    assert (gap.status_code, gap.json()["offset"]) == (409, 13)
    again = await node.post(path, params={"offset": 0}, content=b"hello from 0\n")
    assert again.json() == {"offset": 13, "full": False}
    binary = bytes(range(256)) * 2000
    sent = await node.post(path, params={"offset": 13}, content=binary)
    assert sent.json() == {"offset": 13 + len(binary), "full": False}
    large = await node.post(path, params={"offset": 13 + len(binary)}, content=b"x" * ((1 << 20) + 1))
    assert large.status_code == 413
    assert (await client.send(calls.output(command.id, offset=13)))[:256] == binary[:256]


async def test_output_needs_an_offset(site: Site) -> None:
    node, _ = await _joined(site)
    for query in ("", "?offset=-1", "?offset=x"):
        answer = await node.post(f"/api/v1/agent/commands/cmd-1/output{query}", content=b"")
        assert (answer.status_code, answer.json()["field"]) == (422, "offset")


async def test_an_unknown_command_is_not_found(site: Site) -> None:
    node, _ = await _joined(site)
    root = "/api/v1/agent/commands/cmd-none"
    assert (await node.post(f"{root}/state", json={"state": "running"})).status_code == 404
    assert (await node.post(f"{root}/output?offset=0", content=b"")).status_code == 404
    assert (await node.put(f"{root}/artifact", content=b"")).status_code == 404


async def test_a_boot_that_failed_fails_its_node(site: Site) -> None:
    node, admitted = await _joined(site)
    answer = await node.post("/api/v1/agent/report", json={"failed": "the boot script ended with 3"})
    assert answer.status_code == 200
    shown = await site.client().send(calls.node(admitted["node_id"]))
    assert shown.reason == "boot_script_failed"


async def test_many_nodes_beat_at_once(site: Site) -> None:
    node, _ = await _joined(site)
    answers = await asyncio.gather(*(node.post("/api/v1/agent/beat", json={}) for _ in range(200)))
    assert {answer.status_code for answer in answers} == {200}
    metrics = (await site.http().get("/metrics")).text
    assert "muster_heartbeats_total 200" in metrics
