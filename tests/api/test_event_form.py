"""Events on the public feed have the form of the API: folding them gives the API's own resources."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from muster.client import calls
from muster.domain.command import Execution, Variable
from muster.domain.events import Entity, Event
from muster.domain.health import Health
from muster.domain.ids import EventId
from muster.domain.requests import ProvisionRequest
from muster.domain.serialization import Plain
from muster.domain.template import TemplateSpec
from muster.wire.events import changes_of
from tests.api.site import Site
from tests.harness.azure import SPEC

RUNNING_TIME = {"elapsed_seconds", "percent", "updated_at", "last_seen_at"}
"""Fields that move without an event."""
BESIDE: dict[str, set[str]] = {
    "node": RUNNING_TIME,
    "operation": RUNNING_TIME | {"detail", "steps"},
    "command": {"argv", "timeout", "archive", "stdin", "collect", "silent_since", "given_up_at"},
    "cluster": {"account", "group", "region", "nodes", "console_url", "spec", "operation"},
    "template": {"paused"},
}
"""Fields of a resource that its events don't carry."""


async def _folded(site: Site) -> dict[str, dict[str, Any]]:
    """All entities by their ids, each with its events folded in the order in which they came."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for event in (await site.http().get("/api/v1/events", params={"last": 1000})).json()["items"]:
        found[event["entity_id"]] |= event["changes"]
    return found


async def _same(site: Site, kind: str, path: str, folded: dict[str, Any]) -> None:
    resource = (await site.http().get(f"/api/v1{path}")).json()
    expected = {name: value for name, value in resource.items() if name not in BESIDE[kind]}
    if kind == "operation" and expected["error"] is not None:
        del expected["error"]["code"], expected["error"]["diagnosis"]
    # What is left out of an event is null in the API.
    assert {name: folded.get(name) for name in expected} == expected
    assert set(folded) <= set(resource)


async def test_folding_the_events_of_a_run_gives_what_the_api_shows_of_it(site: Site) -> None:
    client = site.client()
    asked = ProvisionRequest(template="ci", count=1, run="run-1")
    execution = Execution(argv=("make",), env=(Variable(name="KEY", value="secret"),))
    run = await site.ended(client, await client.send(calls.run(asked, execution)))
    (command,) = (await client.send(calls.commands(run="run-1"))).items

    async def judged() -> bool:
        return (await client.send(calls.node(command.node_id))).health is Health.READY

    await site.until(judged)  # before the first judgement there is no event of it
    folded = await _folded(site)
    await _same(site, "command", f"/commands/{command.id}", folded[command.id])
    await _same(site, "node", f"/nodes/{command.node_id}", folded[command.node_id])
    for operation_id in (run.operation_id, command.operation_id):
        await _same(site, "operation", f"/operations/{operation_id}", folded[operation_id])
    assert "secret" not in str(folded)


async def test_the_events_of_a_failure_carry_its_error(site: Site) -> None:
    await site.template("tiny", max_nodes=1)
    client = site.client()
    asked = ProvisionRequest(template="tiny", count=2, run="run-1")
    failed = await site.ended(client, await client.send(calls.provision(asked)))
    folded = await _folded(site)
    assert folded[failed.operation_id]["error"]["reason"] == "above_cap"
    await _same(site, "operation", f"/operations/{failed.operation_id}", folded[failed.operation_id])


async def test_folding_the_events_of_a_cluster_gives_what_the_api_shows_of_it(site: Site) -> None:
    client = site.client()
    pools = (replace(SPEC.pools[0], labels={"tier": "small"}),)
    spec = replace(SPEC, pools=pools, tags={"team": "genomics"})
    await client.send(calls.apply(TemplateSpec(name="batch", provider="aks", tables={"cluster": spec})))
    created = await site.ended(client, await client.send(calls.create_cluster("c1", "batch")))
    cluster = await client.send(calls.cluster("c1"))
    folded = await _folded(site)
    await _same(site, "template", "/templates/batch", folded["batch"])
    await _same(site, "cluster", "/clusters/c1", folded[cluster.id])
    await _same(site, "operation", f"/operations/{created.operation_id}", folded[created.operation_id])


def test_an_event_that_an_older_version_stored_is_read() -> None:
    """It lacks fields that came later, and has words that are gone."""
    progress: dict[str, Plain] = {
        "step": 2,
        "total_steps": 5,
        "phase": "launching",
        "label": "Starting nodes",
        "percent": 20.0,
    }
    verdict: dict[str, Plain] = {"reason": "a_reason_of_then", "message": "it did not come"}
    old = Event(
        id=EventId("ev-1"),
        at=0.0,
        entity=Entity.OPERATION,
        entity_id="op-1",
        version=4,
        name="failing",
        changes={"progress": progress, "verdict": verdict, "updated_at": 1777887000.5},
    )
    shown = changes_of(old)
    assert (shown["step"], shown["parts"], shown["motion"]) == (2, [], None)
    assert (shown["error"]["reason"], shown["error"]["advice"]) == ("a_reason_of_then", "")
    assert shown["updated_at"] == "2026-05-04T09:30:00.500000Z"
