"""The server's image, built and run with Podman on a base that has this machine's own Python."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.site import free_port, until
from tools import image
from tools.engines import getting
from tools.engines.running import IMAGE, Engine

MISSING = """
import re, sys
from importlib.metadata import distributions, requires
there = {re.sub("[-_.]+", "-", each.name).lower() for each in distributions()}
wanted = [each.partition(";") for each in requires("muster-compute")]
extras = re.compile("|".join(sys.argv[1:]))
named = [re.split(r"[^\\w-]", need)[0] for need, _, when in wanted if extras.search(when)]
print(len(named), [each for each in named if each not in there])
"""
TAG = "localhost/muster-server:test"


@pytest.fixture(scope="module")
def podman(shared: Callable[[str], Engine]) -> Engine:
    if sys.version_info[:2] != (3, 11) or not Path("/usr/bin/python3").exists():
        pytest.skip("the base has the system's Python, and the wheels are for this one")
    return shared("podman")


@pytest.fixture(scope="module")
def built(podman: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("image") / "context"
    assert image.gather(place) == 0
    podman.command(*image.building("podman", place, base=IMAGE, tag=TAG), "--isolation", "chroot")
    return TAG


@pytest.fixture
def server(podman: Engine, built: str) -> Iterator[tuple[str, str]]:
    """A running server: its container and its address."""
    port = free_port()
    hardened = (
        "--read-only",
        "--read-only-tmpfs",
        "--cap-drop",
        "all",
        "--security-opt",
        "no-new-privileges",
    )
    name = podman.command(
        *("run", "--detach", "--network", "host", *hardened, "--env", f"MUSTER_PORT={port}", built)
    ).strip()
    try:
        yield name, f"http://127.0.0.1:{port}"
    finally:
        podman.command("rm", "--force", "--time", "0", "--volumes", name)


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.timeout(400)  # builds an image
@pytest.mark.skipif(getting.missing("podman") is not None, reason="there is no Podman: run make engines")
def test_the_image_serves_read_only_without_rights_and_does_the_main_job(
    podman: Engine, server: tuple[str, str]
) -> None:
    name, url = server
    until(lambda: ready(url), "the server")
    muster = ("exec", name, "python3", "-m", "muster.cli")
    assert podman.command("exec", name, "id", "-u").strip() == "10001"
    assert podman.command("healthcheck", "run", name).strip() in ("", "healthy")  # else it raises
    assert podman.command("exec", name, "python3", "-c", MISSING, *image.EXTRAS).strip() == "6 []"
    said = podman.command(*muster, "run", "--count", "2", "--", "sh", "-c", "echo node $MUSTER_INDEX")
    assert "node 0" in said
    assert "node 1" in said
    page = httpx.get(f"{url}/", trust_env=False)
    assert page.is_success
    assert "admin" not in podman.command("inspect", "--format", "{{.Config.Env}}", name)
    podman.command("stop", "--time", "20", name)
    assert podman.command("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"
