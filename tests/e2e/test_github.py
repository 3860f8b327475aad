"""The whole way with real processes: a workflow's steps, a server, nodes, runners, jobs; GitHub is ours."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.github import FakeGitHub
from fakes.github.world import Run
from muster.client import calls
from tests.e2e.site import PATIENCE, Site, until

REPOSITORY = "acme/shop"
ACTION = Path(__file__).parents[2] / "action" / "muster_action.py"
TRUST = f"""
[trust.shop]
repository = "{REPOSITORY}"
refs = ["refs/heads/*"]
templates = ["ci", "once"]
"""


class Step:
    """One step of a job that uses the Action."""

    def __init__(self, site: Site, github: FakeGitHub, run: Run, folder: Path, **inputs: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        claims = {"repository": run.repository, "ref": "refs/heads/main"}
        github.issuer.claims = {**claims, "run_id": str(run.id), "run_attempt": str(run.attempt)}
        env = {
            "PATH": os.environ["PATH"],
            "GITHUB_REPOSITORY": run.repository,
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/_oidc/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": github.issuer.request_token,
            "INPUT_SERVER": site.url,
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        }
        self.process = subprocess.Popen(
            [sys.executable, str(ACTION)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.log = ""

    def wait(self) -> int:
        self.log, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def done(self) -> "Step":
        assert self.wait() == 0, self.log
        return self

    @property
    def outputs(self) -> dict[str, str]:
        rows = (self.folder / "output").read_text().splitlines()
        return dict(row.split("=", 1) for row in rows)

    @property
    def summary(self) -> str:
        return (self.folder / "summary").read_text()


class World:
    def __init__(self, site: Site, github: FakeGitHub, folder: Path) -> None:
        self.site = site
        self.github = github
        self._folder = folder
        self._steps = 0

    def step(self, run: Run, **inputs: str) -> Step:
        self._steps += 1
        return Step(self.site, self.github, run, self._folder / f"step-{self._steps}", **inputs)

    def begin(self) -> Run:
        return self.github.world.begin(REPOSITORY)

    def runners(self) -> list[str]:
        return [runner.name for runner in self.github.world.of(REPOSITORY)]

    def states(self) -> list[str]:
        return sorted(str(node.state) for node in self.site.nodes())


@pytest.fixture
def world(make_site: Callable[..., Site], tmp_path: Path) -> Iterator[World]:
    github = FakeGitHub().start()
    token = tmp_path / "token"
    token.write_text("a-personal-token\n")
    limits = "[limits]\nstale_after = 16\n"
    runner = "runtime = 'github'\nresource_class = 'small'\n"
    templates = f"[templates.ci]\n{runner}[templates.once]\n{runner}reuse = 'never'\n"
    config = f'{limits}{github.settings()}token_file = "{token}"\n{TRUST}{templates}'
    site = make_site(config=config).start()
    try:
        yield World(site, github, tmp_path / "steps")
    finally:
        if site._server is not None:
            site._give_back()
            until(site._empty, "every node to be terminated")
        github.stop()


def _jobs(world: World, run: Run, label: str, count: int, script: str = "env") -> list[Any]:
    jobs = [world.github.world.queue(run, f"test-{number}", [label], script) for number in range(count)]
    done = world.github.world.wait(lambda: all(job.status == "completed" for job in jobs), PATIENCE)
    assert done, [(job.status, job.runner) for job in jobs]
    return jobs


def test_a_workflow_from_its_first_step_to_warm_reuse(world: World) -> None:
    run = world.begin()
    step = world.step(run, mode="provision", template="ci", instance_count="2").done()
    assert step.outputs["label"] == f"{run.id}-1"
    nodes = json.loads(step.outputs["node-ids"])
    assert len(nodes) == len(world.runners()) == 2
    assert step.outputs["operation-id"] in step.summary and nodes[0] in step.summary
    assert "::add-mask::ey" in step.log and "[3/5]" in step.log

    again = world.step(run, mode="provision", template="ci", instance_count="2").done()
    assert again.outputs == step.outputs, "the same attempt is the same provision"

    jobs = _jobs(world, run, step.outputs["label"], 3)
    assert [job.conclusion for job in jobs] == ["success"] * 3
    assert not any("ACTIONS_RUNNER_INPUT" in job.output or "REG" in job.output for job in jobs)

    world.step(run, mode="release").done()
    until(lambda: world.states() == ["idle", "idle"], "clean nodes")
    assert world.runners() == []
    gone = world.step(run, mode="release", operation_id="op-gone").done()
    assert "::notice title=Muster%3A nothing to release::" in gone.log

    warm = world.begin()
    step = world.step(warm, mode="provision", template="ci", instance_count="2").done()
    assert sorted(json.loads(step.outputs["node-ids"])) == sorted(nodes)
    seen = world.site.ask(calls.overview())
    assert [each.kind for each in seen.providers if each.calls and each.name == "github"] == ["github"]
    assert (seen.warmth.hour.nodes, seen.warmth.hour.warm) == (4, 2)
    world.github.world.cancel(warm)
    until(lambda: world.states() == ["idle", "idle"], "the server to see that it was cancelled")
    secret = (world.site.data / "muster.db").read_bytes()
    assert not any(token.encode() in secret for token in world.github.world.registrations)
    assert not any(token in world.site.words() for token in world.github.world.registrations)


def test_an_ephemeral_runner_serves_one_job_and_its_machine_is_thrown_away(world: World) -> None:
    run = world.begin()
    step = world.step(run, mode="provision", template="once").done()
    (node,) = json.loads(step.outputs["node-ids"])
    (job,) = _jobs(world, run, step.outputs["label"], 1, "exit 3")
    assert job.conclusion == "failure"
    assert world.site.node_in("terminated", node).reason == "reuse"
    assert world.runners() == []
    world.github.world.rerun_failed(run)
    again = world.github.world.latest(run)[0]
    done = world.github.world.wait(lambda: again.status == "completed", PATIENCE)
    assert done and again.runner != job.runner, "provisioned again under the label that was given out"


def test_a_server_that_dies_between_registration_and_hand_over_finishes_it_after_its_return(
    world: World,
) -> None:
    run = world.begin()
    world.site.doom("node:attached")
    step = world.step(run, mode="provision", template="ci", instance_count="2")
    world.site.gone()
    assert len(world.runners()) >= 1
    world.site.start()
    step.done()
    assert len(world.runners()) == len(json.loads(step.outputs["node-ids"])) == 2
    assert world.states() == ["running", "running"]
    jobs = _jobs(world, run, step.outputs["label"], 2)
    assert [job.conclusion for job in jobs] == ["success"] * 2


def test_what_the_action_cant_do_it_says_in_an_annotation(world: World) -> None:
    run = world.begin()
    cases = {
        "forbidden": {"mode": "provision", "template": "secret"},
        "unauthenticated": {"mode": "provision", "token": "muster_wrong"},
        "bad input": {"mode": "improvise"},
        "invalid_request": {"mode": "provision", "resource_class": "huge"},
    }
    for title, inputs in cases.items():
        step = world.step(run, **inputs)
        assert step.wait() == 1
        assert f"::error title=Muster%3A {title}::" in step.log, step.log
    world.github.world.tokens.clear()
    step = world.step(run, mode="provision", template="once")
    assert step.wait() == 1
    assert "GitHub refuses with 401" in step.log and "expired" in step.log
    assert not world.site.nodes()


def test_a_cancelled_step_cancels_its_provision(world: World) -> None:
    world.github.world.never_online = True
    run = world.begin()
    step = world.step(run, mode="provision", template="once")
    until(world.runners, "a runner that never comes online")
    step.process.send_signal(signal.SIGINT)
    assert step.wait() == 1
    assert "the workflow was cancelled" in step.log
    operation = world.site.ask(calls.operation(step.outputs["operation-id"]))
    assert operation.status in ("running", "cancelled")
    until(lambda: not world.site.nodes(), "nothing to be left")
    until(lambda: world.runners() == [], "its runner to be swept")
