"""A workflow that just says `runs-on`: webhooks, a server, real nodes and runners; GitHub is ours."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from fakes.github import FakeGitHub
from muster.client import calls
from muster_simulation.github.state import Job, Run
from muster_simulation.github.webhooks import SECRET, event_of, signed
from tests.e2e.site import BRISK, PATIENCE, Site, until
from tests.e2e.workflows import REPOSITORY, settings


class JobSite:
    def __init__(self, site: Site, github: FakeGitHub) -> None:
        self.site = site
        self.world = github.world

    def begin(self) -> Run:
        return self.world.begin(REPOSITORY)

    def queue(self, run: Run, script: str = "true") -> Job:
        return self.world.queue(run, "build", ["muster-linux/small"], script)

    def send(self, job: Job, action: str, *, secret: str = SECRET) -> httpx.Response:
        headers, body = signed(event_of(job, action), secret=secret)
        return self.post(headers, body)

    def post(self, headers: dict[str, str], body: bytes) -> httpx.Response:
        return httpx.post(
            f"{self.site.url}/hooks/github", headers=headers, content=body, timeout=PATIENCE, trust_env=False
        )

    def ran(self, *jobs: Job) -> None:
        assert self.world.wait(lambda: all(job.status == "completed" for job in jobs), PATIENCE)

    def provisions(self) -> int:
        return len(self.site.ask(calls.operations(kind="provision")).items)


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    fake = FakeGitHub().start()
    yield fake
    fake.stop()


@pytest.fixture
def job_site(github: FakeGitHub, make_site: Callable[..., Site], tmp_path: Path) -> JobSite:
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    hook = f'webhook_secret_file = "{secret}"\nrepositories = ["acme/*"]\ntoken_file'
    given = settings(github, tmp_path / "token").replace("token_file", hook)
    template = "[templates.linux]\nruntime = 'github'\nreuse = 'never'\n"
    template += "[templates.linux.runner]\nlabels = ['muster-linux']\n"
    return JobSite(make_site(config=f"{BRISK}{given}{template}").start(), github)


def test_a_workflow_that_just_says_runs_on_gets_a_machine_and_hostile_deliveries_get_none(
    job_site: JobSite,
) -> None:
    run = job_site.begin()
    job = job_site.queue(run)
    assert job_site.send(job, "queued", secret="guessed").status_code == 401
    headers, body = signed(b" " * (25 << 20))
    assert job_site.post(headers, body).status_code == 413
    assert job_site.provisions() == 0
    for _ in range(3):
        assert job_site.send(job, "queued").status_code == 202
    job_site.ran(job)
    assert job.conclusion == "success"
    for action in ("completed", "in_progress", "queued"):
        assert job_site.send(job, action).status_code == 202

    def audited() -> bool:
        found = job_site.site.ask(calls.job(f"github-{job.id}"))
        return found.node_id is not None and found.result == "succeeded"

    until(audited, "the audit line of the job")
    until(lambda: not job_site.site.nodes(), "the machine to go")
    assert job_site.provisions() == 1
    assert SECRET not in job_site.site.words()


@pytest.mark.parametrize("moment", ["job:queued", "job:served"])
def test_a_server_killed_between_webhook_and_answer_serves_the_job_after_its_return(
    job_site: JobSite, moment: str
) -> None:
    job = job_site.queue(job_site.begin())
    job_site.site.doom(moment)
    with pytest.raises(httpx.TransportError):
        job_site.send(job, "queued")
    job_site.site.gone()
    job_site.site.start()
    job_site.ran(job)  # the webhook was not sent again
    assert job_site.provisions() == 1
    job_site.send(job, "completed")
    until(lambda: not job_site.site.nodes(), "the machine to go")
