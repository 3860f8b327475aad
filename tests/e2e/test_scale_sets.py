"""Jobs that just say `runs-on`, with real processes: server, nodes, runners, jobs; GitHub is ours."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fakes.github import FakeGitHub, Job
from muster.client import calls
from tests.e2e.fork_server import ForkServer
from tests.e2e.replicas import Replicas
from tests.e2e.site import BRISK, PATIENCE, Site, until
from tests.e2e.workflows import REPOSITORY, Workflows, settings
from tests.stores import postgres

NAME = "muster-linux"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    fake = FakeGitHub().start()
    fake.world.sets.window, fake.world.sets.session_life = 0.5, 1.2
    yield fake
    fake.stop()


def config(github: FakeGitHub, tmp_path: Path, *, reuse: str = "same-owner", warm: int = 1) -> str:
    template = f"""
[templates.linux]
runtime = "github"
resource_class = "small"
reuse = "{reuse}"
idle_timeout = 4
min_idle = {warm}
[templates.linux.runner]
scope = "{REPOSITORY}"
scale_set = "{NAME}"
max_runners = 3
"""
    return f"{BRISK}{settings(github, tmp_path / 'token')}{template}"


@pytest.fixture
def world(github: FakeGitHub, make_site: Callable[..., Site], tmp_path: Path) -> Workflows:
    site = make_site(config=config(github, tmp_path)).start()
    return Workflows(site, github, tmp_path / "steps")


def test_a_workflow_that_only_says_runs_on_is_served_by_clean_machines(world: Workflows) -> None:
    jobs = world.jobs(world.begin(), NAME, 7, "echo on $MUSTER_NODE; env")
    assert [job.conclusion for job in jobs] == ["success"] * 7
    assert not any("ACTIONS_RUNNER_INPUT" in job.output for job in jobs)
    machines = {job.output.splitlines()[0] for job in jobs}
    assert len(machines) <= 3 + 1, "max_runners machines and the warm one served all of them"
    until(lambda: not world.runners(), "no runner to be left")
    (scale_set,) = world.github.world.sets.of(REPOSITORY)
    until(lambda: not scale_set.queue, "all messages to be acknowledged")
    assert set(scale_set.capacities) <= {0, 1, 2, 3} and max(scale_set.capacities) == 3


WARM = (
    "provision:submitted",
    "node:claim",
    "node:attached",
    "provision:committed",
    "node:hand_over",
    "node:release",
    "node:clean",
    "job:running",
    "job:completed",
)
COLD = ("launch:settled", "node:joined", "node:condemn", "node:confirm_gone")


def _done(world: Workflows, jobs: Sequence[Job], boundary: str) -> None:
    done = world.github.world.wait(lambda: all(job.conclusion for job in jobs), PATIENCE)
    assert done, (boundary, [(job.status, job.runner) for job in jobs])
    assert [job.conclusion for job in jobs] == ["success"] * len(jobs)
    assert len({job.runner for job in jobs}) == len(jobs)


def _through_deaths(world: Workflows, boundaries: tuple[str, ...]) -> None:
    for boundary in boundaries:
        until(lambda: not world.runners() and not world.site.unfinished(), "quiet")
        if boundaries is not COLD:
            until(lambda: world.site.nodes("idle"), "a warm machine")
        world.site.doom(boundary)
        run = world.begin()
        jobs = [world.github.world.queue(run, f"{boundary}-{each}", [NAME], "true") for each in range(2)]
        world.site.gone()
        world.site.start()
        _done(world, jobs, boundary)
    until(lambda: not world.runners(), "no runner to be left")
    until(lambda: not world.site.unfinished(), "every operation to end")
    until(lambda: set(world.states()) <= {"idle"}, "every machine to be idle or gone")


@pytest.mark.parametrize("boundaries", [WARM[::2], WARM[1::2]], ids=["odd", "even"])
def test_no_job_is_lost_or_doubled_when_the_server_dies_at_any_boundary(
    world: Workflows, boundaries: tuple[str, ...]
) -> None:
    _through_deaths(world, boundaries)


def test_nor_when_it_dies_while_machines_are_made_and_thrown_away(
    github: FakeGitHub, make_site: Callable[..., Site], tmp_path: Path
) -> None:
    site = make_site(config=config(github, tmp_path, reuse="never", warm=0)).start()
    _through_deaths(Workflows(site, github, tmp_path / "steps"), COLD)


def test_a_server_that_is_stopped_gives_its_session_back_at_once(world: Workflows) -> None:
    until(lambda: world.github.world.sets.of(REPOSITORY), "the set")
    (scale_set,) = world.github.world.sets.of(REPOSITORY)
    until(lambda: scale_set.session, "a session")
    world.site.stop()
    assert scale_set.session is None
    world.site.start()


def test_of_two_replicas_one_listens_and_the_other_takes_over(
    github: FakeGitHub, fork_server: ForkServer, tmp_path: Path
) -> None:
    """Two servers on one PostgreSQL. The one with the session is killed while jobs wait."""
    replicas = Replicas(tmp_path, fork_server, postgres.empty(), count=2)
    for site in replicas.sites:
        with site._config.open("a") as file:
            file.write(config(github, tmp_path).removeprefix(BRISK))
    try:
        replicas.start()
        sets = github.world.sets
        until(lambda: any(each.session for each in sets.of(REPOSITORY)), "a session")
        world = Workflows(replicas.sites[0], github, tmp_path / "steps")
        run = world.begin()
        jobs = world.github.world.queue_all(run, ["one", "two", "three", "four"], [NAME], "true")
        until(lambda: any(job.status != "queued" for job in jobs), "a job to start")
        holder = next(each for each in replicas.sites if _listens(each, github))
        other = next(each for each in replicas.sites if each is not holder)
        holder.kill()
        more = world.github.world.queue_all(run, ["five", "six"], [NAME], "true")
        _done(world, jobs, "the first jobs")
        _done(world, more, "jobs of the takeover")
        until(lambda: _listens(other, github), "the other to listen")
        until(lambda: not world.runners(), "no runner to be left")
        replicas.verify()
    finally:
        replicas.close()


def _listens(site: Site, github: FakeGitHub) -> bool:
    """Whether the set's session is this server's."""
    sessions = [each.session for each in github.world.sets.of(REPOSITORY) if each.session]
    return site.ask(calls.overview()).replica in [each.owner for each in sessions]
