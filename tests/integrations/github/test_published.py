"""We against what GitHub publishes: its examples of webhooks are read, its OpenAPI knows all that we ask."""

import inspect
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from fakes.github import GitHubState, WorldTransport
from muster.domain.errors import Refused
from muster.domain.jobs import JobResult, JobState
from muster.integrations.github.api import GitHubApi, new_http
from muster.integrations.github.credentials import AppCredentials, PersonalToken
from muster.integrations.github.job_events import AHEAD_MOST, is_signed, read_event, sighting, state_of
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import Scope, WorkflowJob
from muster_simulation.github.webhooks import signed
from tests.integrations.github.conftest import API, TOKEN, ManualClock
from tests.integrations.github.documents import PublishedApi, examples

REPOSITORY = "acme/shop"
NOW = 1800000000.0


def test_the_published_test_vector_of_signatures_is_accepted() -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed(b"It's a Secret to Everybody", b"Hello, World!", signature)
    assert not is_signed(b"It's a Secret to Everybody", b"Hello, World?", signature)
    assert not is_signed(b"", b"Hello, World!", signature)


def test_every_published_example_of_a_job_is_read() -> None:
    found = []
    for example in examples("workflow_job"):
        _, body = signed(example)
        event = read_event(body)
        state = state_of(event.workflow_job, action=event.action)
        found.append((event.action, event.workflow_job.status, state))
        if state is None:
            continue
        name = event.repository.full_name
        seen = sighting(event.workflow_job, name, state, installation_id="inst", now=NOW)
        assert (seen.repository, seen.run) == (
            example["repository"]["full_name"],
            str(event.workflow_job.run_id),
        )
        assert seen.labels == tuple(example["workflow_job"]["labels"])
        assert (seen.runner == "") is (state is JobState.QUEUED)
        assert seen.queued_at is not None or "created_at" not in example["workflow_job"]
        if state is JobState.COMPLETED:
            assert seen.result in (JobResult.SUCCEEDED, JobResult.FAILED)
            assert seen.started_at is not None and seen.completed_at is not None
            assert seen.started_at < seen.completed_at
    assert {each[0] for each in found} == {"queued", "waiting", "in_progress", "completed"}
    assert ("queued", "waiting", None) in found


def test_times_in_the_far_future_are_held_to_the_present() -> None:
    late = datetime(9999, 1, 1, tzinfo=UTC)
    job = WorkflowJob(id=1, run_id=2, status="in_progress", runner_name="one", started_at=late)
    seen = sighting(job, REPOSITORY, JobState.RUNNING, installation_id="inst", now=NOW)
    assert seen.started_at == NOW + AHEAD_MOST


@pytest.fixture
async def asked() -> Any:
    """A registry whose every request is held to GitHub's document, and what was asked."""
    clock = ManualClock()
    world = GitHubState(clock.now)
    checked = PublishedApi(WorldTransport(world))
    http = new_http(checked)
    yield clock, world, checked, http
    await http.aclose()


async def test_every_request_of_the_registry_is_one_that_github_documents(asked: Any) -> None:
    clock, world, checked, http = asked
    registry = GitHubRegistry(GitHubApi(http, PersonalToken(TOKEN), clock, api_url=API), clock)
    shop, acme = Scope.named(REPOSITORY), Scope.named("acme")
    world.groups["acme"] = {"ci": 7}
    run = world.begin(REPOSITORY)
    job = world.queue(run, "build", ["muster-linux"])
    used: dict[str, list[Any]] = {
        "check": [registry.check(shop, group=""), registry.check(acme, group="ci")],
        "just_in_time": [
            registry.just_in_time(shop, name="one", labels=["muster-linux/xlarge"], group=""),
            registry.just_in_time(acme, name="two", labels=["a"], group="ci"),
        ],
        "registration_token": [registry.registration_token(shop), registry.registration_token(acme)],
        "runners": [registry.runners(shop), registry.runners(acme)],
        "find": [registry.find(shop, "one"), registry.find(acme, "two")],
        "remove": [registry.remove(shop, 1), registry.remove(acme, 1)],
        "refuses_public": [registry.refuses_public(acme, group="ci")],
        "run": [registry.run(REPOSITORY, run.id)],
        "can_see": [registry.can_see(REPOSITORY)],
        "active": [registry.active(REPOSITORY)],
        "workflow_jobs": [registry.workflow_jobs(REPOSITORY, run.id)],
        "workflow_job": [registry.workflow_job(REPOSITORY, job.id)],
    }
    for calls in used.values():
        for call in calls:
            await call
    job.status, job.conclusion, run.held = "completed", "failure", False
    await registry.rerun_failed(REPOSITORY, run.id)
    with pytest.raises(Refused, match="already running"):
        await registry.rerun_job(REPOSITORY, job.id)
    public = {
        name for name, _ in inspect.getmembers(GitHubRegistry, inspect.iscoroutinefunction) if name[0] != "_"
    }
    assert public == {*used, "rerun_failed", "rerun_job"}, "every verb is held to the document"
    assert "actions/re-run-workflow-failed-jobs" in checked.seen


async def test_every_request_of_an_app_is_one_that_github_documents(
    asked: Any, private_key: str, public_key: str
) -> None:
    clock, world, checked, http = asked
    world.apps["42"] = public_key
    world.installations[5] = ("42", "acme")
    app = AppCredentials(http, clock, api_url=API, app_id="42", private_key=private_key)
    for scope in (Scope.named(REPOSITORY), Scope.named("acme")):
        await app.authorization(scope)
    assert {"apps/get-repo-installation", "apps/get-org-installation"} <= set(checked.seen)
    assert "apps/create-installation-access-token" in checked.seen


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("GET", "/repos/acme/shop/actions/runnerz", "", b""),
        ("PUT", "/repos/acme/shop/actions/runners", "", b""),
        ("GET", "/repos/acme/shop/actions/runners", "names=x", b""),
        ("GET", "/repos/acme/shop/actions/runs", "status=waitin", b""),
        ("POST", "/repos/acme/shop/actions/runners/generate-jitconfig", "", b""),
        ("POST", "/repos/acme/shop/actions/runners/generate-jitconfig", "", b'{"name": "one"}'),
    ],
)
def test_the_check_itself_refuses_what_github_does_not_have(
    method: str, path: str, query: str, body: bytes
) -> None:
    checked = PublishedApi(httpx.MockTransport(lambda _request: httpx.Response(200)))
    with pytest.raises((AssertionError, ValueError)):
        checked.check(method, path, query, body)
