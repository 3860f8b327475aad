"""`make demo-github`: this machine as a pool of runners, for workflows of a small GitHub of our own.

Everything but GitHub is real: the server, its nodes (processes of this machine), the Action's program that
the workflows' steps run, the registration of runners. The runner itself is a stand-in that takes the real
one's words.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from fakes.github import FakeGitHub, Job
from muster.client import calls
from muster.domain.errors import MusterError
from muster.integrations.process.demo_site import DemoFailed, Site
from muster_simulation.github.state import Run

REPOSITORY = "acme/shop"
COUNT = 2
JOBS = 4
WITHIN = 90.0
ACTION = Path(__file__).parents[1] / "action" / "muster_action.py"
SCRIPT = "echo tests passed on $MUSTER_NODE, by $GITHUB_JOB"
CONFIG = """
{github}
token_file = "{token}"

[trust.shop]
repository = "acme/shop"
templates = ["ci"]

[templates.ci]
runtime = "github"
resource_class = "small"

[templates.linux]
runtime = "github"
resource_class = "small"

[templates.linux.runner]
scope = "acme/shop"
scale_set = "muster-linux"
max_runners = 2
"""
SET = "muster-linux"


def say(text: str) -> None:
    print(text, flush=True)


@dataclass
class Show:
    site: Site
    github: FakeGitHub
    jobs: int = 0
    took: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """From queued to running, of jobs that just said `runs-on`."""

    def perform(self) -> None:
        self.just_runs_on()
        say("\n--- a workflow run that asks for its runners itself: no warm ones yet")
        first = self.github.world.begin(REPOSITORY)
        self.tested(first, self.provisioned(first))
        self.released(first)
        say("\n--- the next workflow run: the same machines, still warm")
        second = self.github.world.begin(REPOSITORY)
        self.tested(second, self.provisioned(second))
        say("\n--- it is cancelled, so no job of it releases anything: the server looks by itself")
        self.github.world.cancel(second)
        self.until_idle()
        left = len(self.github.world.of(REPOSITORY))
        say(f"✔ given back; {left} runners are left at GitHub")

    def just_runs_on(self) -> None:
        say(f"--- a workflow that only says `runs-on: {SET}`: {JOBS} jobs, no other step")
        self.tested(self.github.world.begin(REPOSITORY), SET)
        self.until_idle()
        say("\n--- the next push: its jobs find warm machines")
        self.tested(self.github.world.begin(REPOSITORY), SET)
        self.until_idle()
        left = len(self.github.world.of(REPOSITORY))
        say(f"✔ each runner served one job; {left} runners are left at GitHub")

    def provisioned(self, run: Run) -> str:
        started = time.monotonic()
        outputs = self.step(run, mode="provision", instance_count=str(COUNT))
        self.took.append(time.monotonic() - started)
        return outputs["label"]

    def tested(self, run: Run, label: str) -> None:
        say(f"\n{JOBS} jobs with runs-on: {label}")
        world = self.github.world
        jobs = [world.queue(run, f"test-{number}", [label], SCRIPT) for number in range(JOBS)]
        if not world.wait(lambda: all(job.status == "completed" for job in jobs), WITHIN):
            raise DemoFailed("cannot go on: the jobs did not end in time")
        for job in jobs:
            self._told(job)
        if label == SET:
            self.waited.append(min(job.started_at - job.queued_at for job in jobs))
        self.jobs += len(jobs)

    def _told(self, job: Job) -> None:
        say(f"  {job.name}: {job.conclusion}: {job.output.strip()}")
        if job.conclusion != "success":
            raise DemoFailed(f"cannot go on: {job.name} ended with {job.conclusion}")

    def released(self, run: Run) -> None:
        self.step(run, mode="release")
        self.until_idle()

    def step(self, run: Run, **inputs: str) -> dict[str, str]:
        """Run a step of a workflow's job that uses the Action, on a machine that has nothing but Python."""
        claims = {"repository": run.repository, "ref": "refs/heads/main"}
        self.github.issuer.claims = {**claims, "run_id": str(run.id), "run_attempt": str(run.attempt)}
        output = self.site.directory / "step-output"
        output.write_text("")
        environment = {
            "PATH": os.environ["PATH"],
            "GITHUB_REPOSITORY": run.repository,
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_OUTPUT": str(output),
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.github.url}/_oidc/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": self.github.issuer.request_token,
            "INPUT_SERVER": self.site.url,
            "INPUT_TEMPLATE": "ci",
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        }
        say(f"\n- uses: muster  with: {json.dumps(inputs)}")
        done = subprocess.run(
            [sys.executable, str(ACTION)], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        for line in done.stdout.splitlines():
            if not line.startswith("::add-mask::"):
                say(f"  {line}")
        if done.returncode:
            raise DemoFailed(f"cannot go on: the step ended with {done.returncode}")
        return dict(row.split("=", 1) for row in output.read_text().splitlines())

    def until_idle(self) -> None:
        with self.site.client() as client:
            latest = time.monotonic() + WITHIN
            while time.monotonic() < latest:
                nodes = client.send(calls.nodes(limit=100)).items
                if nodes and all(node.state.value == "idle" for node in nodes):
                    return
                time.sleep(0.1)
        raise DemoFailed("cannot go on: the nodes were not given back in time")


def main() -> int:
    def stopped(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, stopped)
    github = FakeGitHub().start()
    token = Path(os.environ.get("TMPDIR", "/tmp")) / f"muster-demo-{os.getpid()}.token"  # noqa: S108
    token.touch(mode=0o600)
    token.write_text("a-personal-token\n")
    site: Site | None = None
    try:
        say(f"a small GitHub listens on {github.url}")
        site = Site.started(config=CONFIG.format(github=github.settings(), token=token))
        say(f"a server listens on {site.url}; its nodes are processes of this machine")
        show = Show(site, github)
        with site.needed():
            show.perform()
        say("\nending the nodes and the server")
        leaked, site = site.end(), None
        cold, warm = show.took
        left = len(github.world.of(REPOSITORY))
        first, second = show.waited
        by_name, asked = f"cold {first:.1f} s, warm {second:.1f} s", f"cold {cold:.1f} s, warm {warm:.1f} s"
        times = f"runs-on {by_name} · asked for {asked}"
        say(f"demo-github: {times} · {show.jobs} jobs · {left} runners left · {leaked} leaked")
    except KeyboardInterrupt:
        return 130
    except MusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        if site is not None:
            say("cleaning up")
            site.end()
        github.stop()
        token.unlink(missing_ok=True)
    return 1 if leaked or left else 0


if __name__ == "__main__":
    sys.exit(main())
