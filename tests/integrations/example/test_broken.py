"""A package from elsewhere that can't be used: named with its error, and in no other package's way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.terminal import MUSTER, Terminal
from tests.e2e.site import until
from tests.integrations.example.test_example import ROOT

BREAKS = {
    "import error": "import nothing_of_that_name\n",
    "wrong type": "INTEGRATION = {}\n",
    "error in tables": (
        "from muster.integration import Integration\n"
        "class Broken(Integration):\n"
        "    name = 'broken'\n"
        "    providers = ('broken',)\n"
        "    def tables(self):\n"
        "        raise RuntimeError('no tables today')\n"
        "INTEGRATION = Broken()\n"
    ),
    "table of another": (
        "from muster.integration import Integration\n"
        "class Broken(Integration):\n"
        "    name = 'broken'\n"
        "    def tables(self):\n"
        "        return {'process': None}\n"
        "INTEGRATION = Broken()\n"
    ),
}
SAYS = {
    "import error": "ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "wrong type": "TypeError: muster_broken:INTEGRATION is no muster.integration.Integration",
    "error in tables": "RuntimeError: no tables today",
    "table of another": "ValueError: another integration brings the table process",
}
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "muster-broken"
version = "1"
[project.entry-points."muster.integrations"]
broken = "muster_broken:INTEGRATION"
[tool.hatch.build.targets.wheel]
only-include = ["muster_broken.py"]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed; each test writes its module anew."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("broken")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "muster_broken.py").write_text("INTEGRATION = None\n")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(source)], check=True)
    return target


def terminal(package: Path, how: str, here: Path) -> Terminal:
    (package / "muster_broken.py").write_text(BREAKS[how])
    found = {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    return Terminal(here, {**found, "MUSTER_DATA_DIR": str(here / "data"), "HOME": str(here)})


def told(how: str) -> str:
    return f"cannot use the integration broken: {SAYS[how]}; upgrade the package muster_broken"


@pytest.mark.parametrize("how", BREAKS)
def test_commands_work_and_doctor_names_the_package_and_its_error(
    package: Path, how: str, tmp_path: Path
) -> None:
    here = terminal(package, how, tmp_path)
    assert here.typed("--help").code == 0
    assert told(how) in " ".join(here.typed("doctor").out.split())
    text = "[broken]\nkey = 1\n[templates.ci]\n[templates.odd]\nprovider = 'broken'\n"
    (tmp_path / "muster.toml").write_text(text)
    refused = here.typed("apply", "--dry-run")
    assert refused.code != 0
    assert f"line 5 (templates.odd.provider): provider broken is not available: {told(how)}" in refused.err


def test_a_server_starts_says_why_and_refuses_only_templates_that_use_it(
    package: Path, tmp_path: Path
) -> None:
    how = "error in tables"
    here = terminal(package, how, tmp_path)
    data, log = tmp_path / "data", tmp_path / "log"
    with log.open("w") as said:
        serve = [*MUSTER, "serve", "--port", "0"]
        with subprocess.Popen(serve, cwd=tmp_path, env=here.environment, stderr=said) as server:
            try:
                until((data / "server.json").exists, "the server to listen")
                assert told(how) in log.read_text()
                assert "default" in here.typed("templates").out
                answer = put(data)
                assert answer.status_code == 422 and told(how) in answer.text
            finally:
                server.terminate()
                server.wait()


def put(data: Path) -> httpx.Response:
    place = json.loads((data / "server.json").read_text())
    headers = {"Authorization": f"Bearer {(data / 'admin.token').read_text().strip()}"}
    return httpx.put(f"{place['url']}/api/v1/templates/odd", json={"provider": "broken"}, headers=headers)
