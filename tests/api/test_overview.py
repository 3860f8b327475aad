"""The whole at one look, over HTTP: the same for everybody, found out once, with what is wrong first."""

import asyncio
import json
import re
from typing import Any

import httpx

from muster.client import calls
from muster.controllers.upkeep import PoolSampler
from muster.domain.access import Role
from muster.domain.requests import ProvisionRequest
from tests.api.site import Site


async def look(site: Site, role: Role = Role.VIEWER) -> Any:
    answer = await site.http(site.secrets[role]).get("/api/v1/overview")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def fresh(site: Site) -> Any:
    """A look that is not shared with an earlier one."""
    site.api.context.looks._answers.clear()
    return await look(site)


def found(seen: Any) -> list[tuple[str, str]]:
    """What is wrong, and whose fault it is; but not how fast the machine is that the test runs on."""
    return [(each["code"], each["culprit"]) for each in seen["findings"] if each["code"] != "store_slow"]


async def test_all_is_well_on_a_quiet_site(site: Site) -> None:
    operation = await site.provisioned(site.client(), count=2)
    seen = await look(site)
    assert seen["verdict"]["code"] in ("all_well", "store_slow") and not found(seen)
    assert (seen["waiting"]["count"], seen["failures"]["day"]["count"]) == (0, 0)
    assert seen["pools"] == (await site.http().get("/api/v1/pools")).json()
    assert seen["warmth"]["hour"]["nodes"] == 2 and seen["warmth"]["hour"]["rate"] == 0.0
    assert seen["warmth"]["hour"]["ready"]["count"] == 1
    (run,) = seen["runs"]["items"]
    assert (run["operation_id"], run["run"], run["count"]) == (operation.operation_id, "run-1", 2)
    # The unwell come first, and one of them may not have been seen well yet.
    assert {each["node_id"] for each in run["nodes"]} == {each.node_id for each in operation.members}
    assert run["deadline_at"] is not None and run["unwell"] == 0
    assert sum(seen["health"].values()) == 2
    assert [each["name"] for each in seen["providers"]] == ["simulated", "external"]
    assert seen["providers"][0]["calls"] >= 1 and seen["store"]["calls"] > 1


async def test_nodes_from_the_pool_are_warm(site: Site) -> None:
    client = site.client()
    first = await site.provisioned(client, count=2)
    released = await client.send(calls.release(operation_id=first.operation_id))
    await site.ended(client, released)
    await site.provisioned(client, count=2, run="run-2")
    warmth = (await look(site))["warmth"]
    assert (warmth["hour"]["nodes"], warmth["hour"]["warm"], warmth["day"]["rate"]) == (4, 2, 0.5)


async def test_what_waits_and_what_is_paused_is_told_with_why(site: Site) -> None:
    client = site.client(Role.OPERATOR)
    await client.send(calls.pause("ci"))
    request = ProvisionRequest(template="ci", count=1, run="run-1")
    waiting = await client.send(calls.provision(request))

    async def held() -> bool:
        reasons = (await fresh(site))["waiting"]["reasons"]
        return [each["reason"] for each in reasons] == ["paused"]

    await site.until(held)
    seen = await look(site)
    (group,) = seen["waiting"]["reasons"]
    assert (group["count"], group["operation_ids"]) == (1, [waiting.operation_id])
    assert found(seen) == [("paused", "operator")]
    assert seen["brakes"] == {"all": False, "templates": ["ci"]}
    change = seen["changes"][0]
    assert (change["what"], change["text"]) == ("paused", "ci paused")
    assert change["who"].startswith("operator (tok-")
    report = (await site.http(site.secrets[Role.VIEWER]).get("/api/v1/overview/report")).text
    assert "Paused: ci. 1 operation waits." in report
    assert "1 is held back by a pause" in report and "by operator (tok-" in report


async def test_words_of_a_newer_server_are_read(site: Site) -> None:
    await site.provisioned(site.client(), count=1, run="run-1")
    await site.client().send(calls.pause("ci"))
    seen = await look(site)
    seen["changes"][0]["entity"] = "fleet"
    seen["runs"]["items"][0]["nodes"][0]["health"] = "asleep"
    seen["health"]["asleep"] = 1
    read = calls.overview().read(json.dumps(seen).encode())
    assert read.changes[0].entity == "fleet" and read.health["asleep"] == 1
    assert read.runs.items[0].nodes[0].health == "asleep"


async def test_a_failure_is_told_with_its_cause_and_an_example(site: Site) -> None:
    site.lazy = True
    client = site.client(Role.OPERATOR)
    request = ProvisionRequest(template="ci", count=1, run="run-1", timeout=1.0)
    failed = await site.ended(client, await client.send(calls.provision(request)))
    (group,) = (await fresh(site))["failures"]["hour"]["groups"]
    assert failed.error is not None
    assert (group["cause"], group["diagnosed"]) == (failed.error.reason, False)
    assert (group["template"], group["operations"]) == ("ci", 1)
    assert group["example_operation_id"] == failed.operation_id
    seen = await look(site)
    assert found(seen) == [("failures", "demand")]


async def test_however_many_look_it_is_found_out_once(site: Site) -> None:
    looked = 0
    find = site.api.context.overviewing.look

    async def counted() -> Any:
        nonlocal looked
        looked += 1
        return await find()

    site.api.context.overviewing.look = counted  # type: ignore[method-assign]
    http = site.http(site.secrets[Role.VIEWER])
    answers: list[httpx.Response] = await asyncio.gather(*(http.get("/api/v1/overview") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert looked == 1


async def test_a_look_needs_a_token(site: Site) -> None:
    for path in ("/api/v1/overview", "/api/v1/overview/report"):
        assert (await site.http("").get(path)).status_code == 401
        assert (await site.http(site.secrets[Role.ENROL]).get(path)).status_code == 403


async def test_the_figures_say_what_the_overview_says(site: Site) -> None:
    await site.provisioned(site.client(), count=2)
    text = (await site.http().get("/metrics")).text
    assert re.search(
        r'^muster_verdict\{code="(all_well|store_slow)",culprit="\w+",tone="\w+"\} 1$', text, re.M
    )
    assert 'muster_nodes_handed_over_total{source="new"} 2' in text
    assert "muster_ready_seconds_count 1" in text
    assert 'muster_provider_seconds_count{provider="simulated",verb="launch"} 1' in text
    assert 'muster_nodes{template="ci",state="running"} 2' in text


async def test_a_finding_is_acknowledged_by_an_operator_and_told_again(site: Site) -> None:
    client, http = site.client(Role.OPERATOR), site.http(site.secrets[Role.OPERATOR])
    await client.send(calls.pause("ci"))
    seen = await fresh(site)
    assert [each["id"] for each in seen["findings"] if each["code"] != "store_slow"] == ["paused.ci"]
    viewer = site.http(site.secrets[Role.VIEWER])
    refused = await viewer.post("/api/v1/findings/paused.ci/acknowledge")
    assert refused.status_code == 403
    answer = await http.post("/api/v1/findings/paused.ci/acknowledge")
    assert answer.status_code == 200, answer.text
    assert found(answer.json()) == []
    (given,) = (await look(site))["acknowledged"]
    assert given["finding"]["id"] == "paused.ci" and given["by"].startswith("operator (tok-") and given["at"]
    report = (await viewer.get("/api/v1/overview/report")).text
    assert "acknowledged by operator (tok-" in report

    again = (await http.post("/api/v1/findings/paused.ci/unacknowledge")).json()
    assert found(again) == [("paused", "operator")] and again["acknowledged"] == []
    assert again["changes"][0]["text"] == "finding paused.ci unacknowledged"
    assert (await http.post("/api/v1/findings/nothing/acknowledge")).status_code == 404


async def test_the_history_of_pools_shows_samples_hand_overs_boots_and_failures(site: Site) -> None:
    await site.provisioned(site.client(), count=2)
    await PoolSampler(site.ports).reconcile()
    answer = await site.http(site.secrets[Role.VIEWER]).get("/api/v1/pools/history", params={"hours": 1})
    assert answer.status_code == 200, answer.text
    seen = answer.json()
    assert seen["step_seconds"] == 60.0
    (ci,) = [each for each in seen["items"] if each["points"]]
    assert [(point["running"], point["idle"], point["booting"]) for point in ci["points"]] == [(2, 0, 0)]
    assert ci["points"][0]["max_nodes"] == 20
    assert [(each["nodes"], each["warm"]) for each in ci["ready"]] == [(2, 0)]
    assert (ci["boots"], ci["failed"]) == (2, 0) and ci["boot_p50"] is not None


async def test_a_history_of_one_template_is_that_alone_and_at_most_a_day(site: Site) -> None:
    http = site.http(site.secrets[Role.VIEWER])
    asked = await http.get("/api/v1/pools/history", params={"template": "nothing-of-that-name"})
    assert asked.json()["items"] == []
    refused = await http.get("/api/v1/pools/history", params={"hours": 25})
    assert refused.status_code in (400, 422) and "hours" in refused.text
