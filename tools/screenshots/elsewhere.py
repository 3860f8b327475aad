"""Scenes that need another service: clusters on a simulated Azure, jobs of a small GitHub of our own."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fakes.github import FakeGitHub
from muster.integrations.process.demo_site import DemoFailed, Site

REPOSITORY = "acme/shop"
SET = "muster-linux"
RUNNERS = 3
JOBS = ("lint", "unit tests", "integration tests", "browser tests", "package", "docs")
SCRIPT = "echo building; sleep 90"
WITHIN = 90.0
CONFIG = """
{github}
token_file = "{token}"

[templates.linux]
runtime = "github"
resource_class = "small"
max_nodes = 3
min_idle = 1

[templates.linux.runner]
scope = "acme/shop"
scale_set = "muster-linux"
max_runners = 6
"""


@contextmanager
def azure() -> Iterator[Site]:
    """The demo of clusters, as it is left up: one that is ready, one that failed."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "demo-aks", "--keep", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = _spoken(demo)
        yield Site.found(Path(said["data_dir"]))
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(timeout=60)


def _spoken(demo: "subprocess.Popen[str]") -> dict[str, str]:
    """Return what the demo prints once it is up: one JSON value, on one line or several."""
    text = ""
    for line in demo.stdout or ():
        text += line
        with suppress(ValueError):
            return dict(json.loads(text))
    raise DemoFailed("cannot take the picture of clusters: the demo ended early")


@contextmanager
def github() -> Iterator[Site]:
    """A runner scale set with more jobs than runners: some run, some wait under its cap, some are done."""
    service = FakeGitHub().start()
    with TemporaryDirectory() as directory:
        token = Path(directory) / "token"
        token.write_text("a-personal-token\n")
        token.chmod(0o600)
        site = Site.started(config=CONFIG.format(github=service.settings(), token=token))
        try:
            with site.needed():
                _queued(service)
                yield site
        finally:
            site.end()
            service.stop()


def _queued(service: FakeGitHub) -> None:
    world = service.world
    before = world.begin(REPOSITORY)
    first = [world.queue(before, "release notes", [SET], "echo done")]
    if not world.wait(lambda: all(job.status == "completed" for job in first), WITHIN):
        raise DemoFailed("cannot take the picture of jobs: the first job did not end in time")
    run = world.begin(REPOSITORY)
    jobs = [world.queue(run, name, [SET], SCRIPT) for name in JOBS]
    if not world.wait(lambda: sum(job.status == "in_progress" for job in jobs) >= RUNNERS, WITHIN):
        raise DemoFailed("cannot take the picture of jobs: too few of them began in time")
