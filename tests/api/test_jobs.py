"""Jobs over the API, the terminal and the metrics: what waits, what runs where, and why one is not served."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.client import calls
from muster.domain import jobs as domain
from muster.domain.access import Role
from muster.domain.errors import NotFound
from muster.domain.ids import AssignmentId, JobId, NodeId
from muster.domain.job_figures import SourceCounts
from muster.domain.jobs import Job, JobResult, JobSighting, JobState, Unserved, placed, unserved
from tests.api.site import Site
from tests.cli.terminal import Terminal

LONG = 600.0


def sighting(number: str, state: JobState = JobState.QUEUED, **more: Any) -> JobSighting:
    facts = {"repository": "acme/shop", "run": "77", "attempt": 1, "name": "build", "labels": ("muster",)}
    return JobSighting(id=JobId(f"forge-{number}"), source="forge", state=state, **{**facts, **more})


async def noted(site: Site, *sightings: JobSighting) -> Job:
    return (await site.ports.jobs.note(sightings, now=site.ports.clock.now()))[-1]


async def held_back(site: Site, name: str, cause: Unserved, detail: str = "") -> Job:
    job = await noted(site, sighting(name, queued_at=site.ports.clock.now() - LONG))
    change = unserved(job, cause, detail=detail, now=site.ports.clock.now())
    assert change is not None
    return await site.ports.jobs.write(change)


async def ran(site: Site, name: str, *, waited: float, warm: bool) -> Job:
    now = site.ports.clock.now()
    job = await noted(
        site,
        sighting(name, queued_at=now - waited - 10),
        sighting(name, JobState.RUNNING, started_at=now - 10, runner="r", assignment_id=AssignmentId("as-1")),
    )
    return await site.ports.jobs.write(
        placed(job, node_id=NodeId("node-1"), operation_id=None, warm=warm, now=now)
    )


async def test_jobs_are_listed_newest_first_and_completed_ones_on_demand(site: Site) -> None:
    client = site.client(Role.VIEWER)
    await noted(site, sighting("1"))
    await noted(site, sighting("2"))
    await noted(site, sighting("3", JobState.COMPLETED, result=JobResult.FAILED))
    page = await client.send(calls.jobs(limit=1))
    rest = await client.send(calls.jobs(limit=1, cursor=page.next))
    assert [job.id for job in (*page.items, *rest.items)] == ["forge-2", "forge-1"]
    (over,) = (await client.send(calls.jobs(state=["completed"]))).items
    assert (over.id, over.result) == ("forge-3", "failed")
    with pytest.raises(NotFound):
        await client.send(calls.job("forge-9"))


async def test_a_job_that_is_held_back_says_why_and_what_to_do(site: Site) -> None:
    await held_back(site, "1", Unserved.CAP, "20 of 20 nodes of ci are in use")
    client = site.client()
    job = await client.send(calls.job("forge-1"))
    assert job.why == "the cap on nodes is reached (20 of 20 nodes of ci are in use)"
    assert "raise max_nodes" in job.advice
    summary = await client.send(calls.job_summary())
    (group,) = summary.unserved
    assert (summary.queued, group.cause, group.count, group.example) == (1, "cap", 1, "forge-1")


async def test_a_job_that_waits_too_long_is_a_finding_of_the_status(site: Site) -> None:
    await held_back(site, "1", Unserved.NO_TEMPLATE)
    await held_back(site, "2", Unserved.NO_TEMPLATE)
    await site.ports.jobs.note_counts(
        SourceCounts(source="forge", queue="big", at=1.0, problem="the labels x and y were dropped")
    )
    seen = await site.client().send(calls.overview())
    found = {finding.id: finding for finding in seen.findings}
    waits = found["jobs_unserved.no_template"]
    words = "no template has its labels and serves its repository"
    assert waits.text == f"2 jobs wait, the oldest for 10 min: {words}."
    assert waits.about is not None
    assert (waits.about.kind, waits.about.id) == ("job", "forge-1")
    assert found["job_source.forge.big"].text == "big: the labels x and y were dropped."


async def test_a_job_that_just_came_is_no_finding(site: Site) -> None:
    job = await noted(site, sighting("1", queued_at=site.ports.clock.now()))
    change = unserved(job, Unserved.CAP, now=site.ports.clock.now())
    assert change is not None
    await site.ports.jobs.write(change)
    seen = await site.client().send(calls.overview())
    assert [finding.id for finding in seen.findings if finding.code == "jobs_unserved"] == []


async def test_the_summary_tells_how_long_jobs_waited_and_how_many_found_a_warm_node(site: Site) -> None:
    await ran(site, "1", waited=2.0, warm=True)
    await ran(site, "2", waited=4.0, warm=True)
    await ran(site, "3", waited=60.0, warm=False)
    hour = (await site.client().send(calls.job_summary())).hour
    assert hour.waited is not None
    assert (hour.started, round(hour.waited.p50), round(hour.waited.p95)) == (3, 4, 60)
    assert hour.warm_rate == 0.6667


async def test_folding_the_events_of_a_job_gives_what_the_api_shows_of_it(site: Site) -> None:
    await ran(site, "1", waited=2.0, warm=True)
    feed = (await site.http().get("/api/v1/events", params={"entity_id": "forge-1"})).json()["items"]
    folded: dict[str, Any] = {}
    for event in feed:
        folded |= event["changes"]
    shown = (await site.http().get("/api/v1/jobs/forge-1")).json()
    beside = ("why", "advice", "waited_seconds")
    assert folded == {name: value for name, value in shown.items() if name not in beside}
    audit = feed[-1]
    assert (audit["entity"], audit["name"]) == ("job", "placed")
    assert audit["detail"] == "build of acme/shop ran on node-1"


async def test_metrics_have_our_names_and_those_that_people_know(site: Site) -> None:
    await held_back(site, "1", Unserved.PAUSED)
    job = await ran(site, "2", waited=3.0, warm=True)
    done = sighting("2", JobState.COMPLETED, completed_at=job.started_at, result=JobResult.SUCCEEDED)
    await noted(site, done)
    await site.ports.jobs.note_counts(
        SourceCounts(source="forge", queue="muster-linux", scope="acme/shop", at=1.0, assigned=5, most=8)
    )
    lines = (await site.http().get("/metrics")).text.splitlines()
    labels = 'name="muster-linux",namespace="",repository="shop",organization="acme",enterprise=""'
    job_labels = 'repository="shop",organization="acme",enterprise="",job_name="build",event_name=""'
    for line in (
        'muster_jobs{state="queued"} 1',
        'muster_jobs_unserved{cause="paused"} 1',
        'muster_jobs_placed_total{source="pool"} 1',
        'muster_jobs_completed_total{result="succeeded"} 1',
        "muster_job_wait_seconds_count 1",
        f"gha_assigned_jobs{{{labels}}} 5",
        f"gha_max_runners{{{labels}}} 8",
        f"gha_started_jobs_total{{{job_labels}}} 1",
        f'gha_completed_jobs_total{{{job_labels},job_result="succeeded"}} 1',
        f'gha_job_startup_duration_seconds_bucket{{{job_labels},le="5"}} 1',
        f'gha_job_execution_duration_seconds_count{{{job_labels},job_result="succeeded"}} 1',
    ):
        assert line in lines, line


async def test_many_names_of_jobs_make_few_series(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.api.job_metrics.SERIES_MOST", 3)
    for number in range(9):
        seen = sighting(str(number), JobState.RUNNING, name=f"job {number}", queued_at=1.0, started_at=2.0)
        await noted(site, seen)
    text = (await site.http().get("/metrics")).text
    series = [line for line in text.splitlines() if line.startswith("gha_started_jobs_total{")]
    assert len(series) == 4
    assert series[-1].endswith("} 6")


async def test_the_terminal_lists_shows_and_explains_jobs(site: Site, tmp_path: Path) -> None:
    await held_back(site, "1", Unserved.NOT_ALLOWED, "acme/shop")
    await ran(site, "2", waited=3.0, warm=True)
    await noted(site, sighting("3"))
    await noted(site, sighting("4", queue="big"))
    limit = "900 runners are to come: 180 in a minute at most"
    counts = SourceCounts(source="forge", queue="big", at=1.0, assigned=900, state="listening", problem=limit)
    await site.ports.jobs.note_counts(counts)
    terminal = Terminal(tmp_path, {"MUSTER_SERVER": site.url, "MUSTER_TOKEN": site.secrets[Role.VIEWER]})

    def said(*words: str) -> Any:
        return asyncio.to_thread(terminal.muster, "jobs", *words)

    table = await said()
    assert table.code == 0, table.err
    assert "its repository is not allowed (acme/shop)" in table.out
    assert "3 queued, 1 running; last hour: 1 started, queued to running in" in table.out
    assert "100% on warm nodes" in table.out
    found = (await said("-o", "json")).json
    assert [job["id"] for job in found["items"]] == ["forge-4", "forge-3", "forge-2", "forge-1"]
    assert found["summary"]["queued"] == 3
    why = await said("why", "forge-1")
    assert "its repository is not allowed" in why.out and "add the repository" in why.out
    assert "waits to be looked at" in (await said("why", "forge-3")).out
    waits = (await said("why", "forge-4")).out
    assert "in big" in waits and f"listening · {limit}" in waits
    assert "runs on node-1" in (await said("why", "forge-2")).out
    await site.ports.jobs.note_counts(replace(counts, at=2.0, problem="no answer", failing_since=60.0))
    failing = (await said("why", "forge-4")).out
    assert (
        "its source can't be reached, or refuses (forge, since 1970-01-01 00:01:00 UTC: no answer)" in failing
    )
    assert "run `muster doctor`" in failing and "big: 900 assigned" in failing
    shown = (await said("show", "forge-4", "-o", "json")).json
    assert (shown["unserved"], shown["advice"][:19]) == ("source", "run `muster doctor`")
    assert "node-1 (from the pool)" in (await said("show", "forge-2")).out
    missing = await said("show", "forge-9")
    assert (missing.code, "see `muster jobs`" in missing.err) == (2, True)
    assert "must be one of queued, running, completed" in (await said("--state", "odd")).err


async def test_a_source_that_fails_is_the_cause_of_its_waiting_jobs(site: Site) -> None:
    await held_back(site, "1", Unserved.NOT_ALLOWED, "acme/shop")
    await noted(site, sighting("2", queue="big"))
    await noted(site, sighting("3", queue="other"))
    counts = SourceCounts(source="forge", queue="big", at=1.0, problem="no answer", failing_since=60.0)
    await site.ports.jobs.note_counts(counts)
    summary = (await site.http().get("/api/v1/jobs/summary")).json()
    assert sorted(each["cause"] for each in summary["unserved"]) == ["not_allowed", "source"]
    assert summary["sources"][0]["failing_since"] == "1970-01-01T00:01:00Z"
    listed = (await site.http().get("/api/v1/jobs")).json()["items"]
    assert {job["id"]: job["unserved"] for job in listed} == {
        "forge-1": "not_allowed",
        "forge-2": "source",
        "forge-3": None,
    }


def test_a_domain_job_and_its_shape_have_the_same_words() -> None:
    from muster.wire.jobs import Job as Shape

    own = {"assignment_id"}
    assert set(domain.Job.__slots__) - own <= set(Shape.__struct_fields__)
    job = domain.Job(id=JobId("f-1"), source="f", state=JobState.QUEUED, created_at=1.0, updated_at=1.0)
    assert Shape.of(replace(job, unserved=Unserved.CAP)).why == "the cap on nodes is reached"
