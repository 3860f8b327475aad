"""Workflows of the small GitHub: steps that use the Action as real processes, and jobs that want runners."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fakes.github import FakeGitHub
from muster_simulation.github.state import Run
from tests.e2e.site import PATIENCE, Site

REPOSITORY = "acme/shop"
ACTION = Path(__file__).parents[2] / "action" / "muster_action.py"
TRUST = f"""
[trust.shop]
repository = "{REPOSITORY}"
refs = ["refs/heads/*"]
templates = ["ci", "once"]
"""


def settings(github: FakeGitHub, token: Path) -> str:
    """What a server's configuration says of GitHub, and which repositories it trusts."""
    token.write_text("a-personal-token\n")
    return f"{github.settings()}token_file = {json.dumps(str(token))}\n{TRUST}"


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
    def nodes(self) -> list[str]:
        found: list[str] = json.loads(self.outputs["node-ids"])
        return sorted(found)

    @property
    def summary(self) -> str:
        return (self.folder / "summary").read_text()


class Workflows:
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

    def labels(self) -> list[tuple[str, ...]]:
        return [runner.labels for runner in self.github.world.of(REPOSITORY)]

    def states(self) -> list[str]:
        return sorted(str(node.state) for node in self.site.nodes())

    def jobs(self, run: Run, label: str, count: int, script: str = "env") -> list[Any]:
        """Queued, and done."""
        world = self.github.world
        jobs = [world.queue(run, f"test-{number}", [label], script) for number in range(count)]
        done = world.wait(lambda: all(job.status == "completed" for job in jobs), PATIENCE)
        assert done, [(job.status, job.runner) for job in jobs]
        return jobs
