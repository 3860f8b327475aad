"""A package from elsewhere: installed, found by its entry point, held to the contract, and served from."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.site import until

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "examples" / "muster-example-provider"
Result = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def having(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a process that has the package."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *options, str(PACKAGE)], check=True)
    return {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{ROOT}"}


def loaded(environment: Mapping[str, str], path: Path, text: str) -> Result:
    (path / "muster.toml").write_text(text)
    code = (
        "import json; from pathlib import Path; from muster.config import load\n"
        "from muster.domain.errors import MusterError\n"
        "try:\n"
        "    found = load(Path('muster.toml'))\n"
        "    print(json.dumps([found.tables['example'].capacity, dict(found.templates[0].tables)]))\n"
        "except MusterError as error:\n"
        "    print(error)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=path, env=environment, capture_output=True, text=True, check=True
    )


def test_the_example_keeps_the_contract_of_providers(having: Mapping[str, str], tmp_path: Path) -> None:
    file = Path(__file__).with_name("contract.py")
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 't'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(file)],
        cwd=ROOT,
        env=having,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_its_settings_and_its_table_of_a_template_are_read(having: Mapping[str, str], tmp_path: Path) -> None:
    text = "[example]\ncapacity = 3\n[templates.ci]\nprovider = 'example'\n[templates.ci.example]\nnice = 4\n"
    capacity, tables = json.loads(loaded(having, tmp_path, text).stdout)
    assert capacity == 3 and tables["example"] == {"nice": 4}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[exampel]\ncapacity = 3\n", "line 1 (exampel): there is no exampel; did you mean example?"),
        ("[example]\ncapacty = 3\n", "line 2 (example.capacty): there is no capacty; did you mean capacity?"),
        ("[templates.ci]\nprovider = 'exmple'\n", "there is no provider exmple; did you mean example?"),
        ("[templates.ci]\nprovider = 'hetzner'\n", "a package may bring it: `pip install muster-hetzner`"),
        ("[templates.ci.exmple]\nnice = 1\n", "there is no exmple; did you mean example?"),
        (
            "[templates.ci]\nprovider = 'example'\n[templates.ci.example]\nnise = 1\n",
            "line 4 (templates.ci.example.nise): there is no nise; did you mean nice?",
        ),
        ("[templates.ci.example]\nnice = 1\n", "example must be left out: it is for the provider example"),
        ("[templates.ci]\nprovider = 'example'\n[templates.ci.example]\nnice = 99\n", "line 4"),
    ],
)
def test_a_slip_is_named_with_its_line(
    having: Mapping[str, str], tmp_path: Path, text: str, said: str
) -> None:
    assert said in loaded(having, tmp_path, text).stdout


def test_a_server_that_has_it_provisions_from_it(having: Mapping[str, str], tmp_path: Path) -> None:
    file, data = tmp_path / "muster.toml", tmp_path / "data"
    file.write_text(
        "[process]\ncapacity = 0\n[templates.ci]\nprovider = 'example'\nresource_class = 'small'\n"
    )
    environment = {**having, "MUSTER_DATA_DIR": str(data)}
    muster = [sys.executable, "-m", "muster.cli"]
    serve = [*muster, "serve", "-f", str(file), "--port", "0"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(serve, env=environment, stderr=log) as server:
        try:
            until((data / "server.json").exists, "the server to listen")
            ask = [*muster, "provision", "-t", "ci", "-n", "1", "--run", "r1", "--output", "json"]
            done = subprocess.run(ask, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "log").read_text()
            (pid,) = (data / "example").glob("*/*/pid")
            assert pid.parent.name.endswith(".0")
        finally:
            server.terminate()
            server.wait()
            for each in (data / "example").glob("*/*/pid"):
                with suppress(ProcessLookupError):
                    os.killpg(int(each.read_text()), signal.SIGKILL)
