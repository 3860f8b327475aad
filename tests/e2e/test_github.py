"""The whole way with real processes: a workflow's steps, a server, nodes, runners, jobs; GitHub is ours."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.ec2 import FakeEc2
from fakes.ec2.machines import sandbox_works
from fakes.github import FakeGitHub
from muster.client import calls
from tests.e2e.cloud import CloudSite, config
from tests.e2e.site import BRISK, PATIENCE, Site, until
from tests.e2e.workflows import Workflows, settings


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    fake = FakeGitHub().start()
    yield fake
    fake.stop()


@pytest.fixture
def world(github: FakeGitHub, make_site: Callable[..., Site], tmp_path: Path) -> Workflows:
    runner = "runtime = 'github'\nresource_class = 'small'\n"
    templates = f"[templates.ci]\n{runner}[templates.once]\n{runner}reuse = 'never'\n"
    given = f"{BRISK}{settings(github, tmp_path / 'token')}{templates}"
    return Workflows(make_site(config=given).start(), github, tmp_path / "steps")


def test_a_workflow_from_its_first_step_to_warm_reuse(world: Workflows) -> None:
    run = world.begin()
    step = world.step(run, mode="provision", template="ci", instance_count="2").done()
    assert step.outputs["label"] == f"{run.id}-1"
    nodes = step.nodes
    assert len(nodes) == len(world.runners()) == 2
    assert world.labels() == [(f"{run.id}-1",)] * 2, "and not self-hosted, which jobs of others ask for"
    assert step.outputs["operation-id"] in step.summary and nodes[0] in step.summary
    assert "::add-mask::ey" in step.log and re.search(r"\[\d/5\]", step.log)

    again = world.step(run, mode="provision", template="ci", instance_count="2").done()
    assert again.outputs == step.outputs, "the same attempt is the same provision"

    jobs = world.jobs(run, step.outputs["label"], 3)
    assert [job.conclusion for job in jobs] == ["success"] * 3
    assert not any("ACTIONS_RUNNER_INPUT" in job.output or "REG" in job.output for job in jobs)

    world.step(run, mode="release").done()
    until(lambda: world.states() == ["idle", "idle"], "clean nodes")
    assert world.runners() == []
    gone = world.step(run, mode="release", operation_id="op-gone").done()
    assert "::notice title=Muster%3A nothing to release::" in gone.log

    warm = world.begin()
    step = world.step(warm, mode="provision", template="ci", instance_count="2").done()
    assert step.nodes == nodes
    seen = world.site.ask(calls.overview())
    assert [each.kind for each in seen.providers if each.calls and each.name == "github"] == ["runtime"]
    assert (seen.warmth.hour.nodes, seen.warmth.hour.warm) == (4, 2)
    world.github.world.cancel(warm)
    until(lambda: world.states() == ["idle", "idle"], "the server to see that it was cancelled")
    secret = (world.site.data / "muster.db").read_bytes()
    assert not any(token.encode() in secret for token in world.github.world.registrations)
    assert not any(token in world.site.words() for token in world.github.world.registrations)


def test_each_release_of_an_attempt_gives_back_what_it_has_by_then(world: Workflows) -> None:
    run = world.begin()
    for part in ("a", "b"):
        label = f"{run.id}-{part}"
        world.step(run, mode="provision", template="ci", label=label).done()
        assert world.states() == ["running"]
        step = world.step(run, mode="release").done()
        assert "given back in" in step.log
        until(lambda: world.states() == ["idle"], f"the nodes of {label} to come back")


def test_an_ephemeral_runner_serves_one_job_and_its_machine_is_thrown_away(world: Workflows) -> None:
    run = world.begin()
    step = world.step(run, mode="provision", template="once").done()
    (node,) = step.nodes
    (job,) = world.jobs(run, step.outputs["label"], 1, "exit 3")
    assert job.conclusion == "failure"
    assert world.site.node_in("terminated", node).reason == "reuse"
    assert world.runners() == []
    world.github.world.never_online = True  # the job begins and ends before anybody saw its runner online
    world.github.world.rerun_failed(run)
    again = world.github.world.latest(run)[0]
    done = world.github.world.wait(lambda: again.status == "completed", PATIENCE)
    assert done and again.runner != job.runner, "provisioned again under the label that was given out"


def test_a_server_that_dies_between_registration_and_hand_over_finishes_it_after_its_return(
    world: Workflows,
) -> None:
    run = world.begin()
    world.site.doom("node:attached")
    step = world.step(run, mode="provision", template="ci", instance_count="2")
    world.site.gone()
    assert len(world.runners()) >= 1
    world.site.start()
    step.done()
    assert len(world.runners()) == len(step.nodes) == 2
    assert world.states() == ["running", "running"]
    jobs = world.jobs(run, step.outputs["label"], 2)
    assert [job.conclusion for job in jobs] == ["success"] * 2


def test_what_the_action_cant_do_it_says_in_an_annotation(world: Workflows) -> None:
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


def test_a_cancelled_step_cancels_its_provision(world: Workflows) -> None:
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


@pytest.fixture
def ec2() -> Iterator[FakeEc2]:
    with FakeEc2() as fake:
        yield fake


@pytest.mark.skipif(not sandbox_works(), reason="instances need bubblewrap to boot")
def test_the_whole_way_on_ec2(
    ec2: FakeEc2, github: FakeGitHub, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    """Workflow, fleet, user data, join, registration, job, release, warm reuse, idle timeout, terminated."""
    site = make_site(config=config(ec2) + settings(github, tmp_path / "token")).start()
    cloud = CloudSite(site, ec2)
    tool = "mkdir /etc/tools; echo 'echo a tool' > /etc/tools/tool; chmod +x /etc/tools/tool"
    cloud.template(runtime="github", boot_script=tool)
    world = Workflows(site, github, tmp_path / "steps")
    asked = {"mode": "provision", "instance_count": "2", "allowed_instance_types": "c* m*"}
    first = world.begin()
    cold = world.step(first, **asked).done()
    assert len(cloud.there()) == 2 and ec2.counted("CreateFleet") == 1
    housed = '/etc/tools/tool; test "$HOME" = ~runner && echo at home'
    prying = "cat /var/lib/muster/until /var/lib/muster/node/journal; ls /var/lib/muster/node; env"
    for job in world.jobs(first, cold.outputs["label"], 2, f"id -un; {housed}; {prying}"):
        assert job.conclusion == "success"
        if not os.geteuid():  # else the machines' agents are no root either
            assert (
                job.output.startswith("runner\na tool\nat home\n")
                and job.output.count("Permission denied") == 3
            ), job.output
    world.step(first, mode="release").done()
    until(lambda: world.states() == ["idle", "idle"], "clean nodes")
    second = world.begin()
    warm = world.step(second, **asked).done()
    assert warm.nodes == cold.nodes and ec2.counted("CreateFleet") == 1
    again = world.jobs(second, warm.outputs["label"], 2, housed if not os.geteuid() else "true")
    assert [job.conclusion for job in again] == ["success"] * 2
    cloud.template(runtime="github", boot_script=tool, idle_timeout=1.0)
    github.world.complete(second)
    until(lambda: not cloud.there(), "the machines to be ended when no run needs them")
    assert world.runners() == []
    assert not any(token in cloud.consoles() for token in github.world.registrations)
