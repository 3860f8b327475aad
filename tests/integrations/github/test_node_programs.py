"""What runs on a node: the boot that fetches the runner, and the kit that serves, as real processes."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fakes.github import FakeGitHub
from fakes.github.server import VERSION
from muster.domain.template import TemplateSpec
from muster.integrations.github.runners import Scope
from muster.integrations.github.runtime import GitHubRuntime, RunnerPackage, program

WITHIN = 60


@pytest.fixture(scope="module")
def github() -> Iterator[FakeGitHub]:
    fake = FakeGitHub().start()
    yield fake
    fake.stop()


class Node:
    """A node's places, and its boot and kit as the agent would run them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.work = folder / "home", folder / "work"
        for place in (self.home, self.work, folder / "bin"):
            place.mkdir()
        step = folder / "bin" / "muster-agent"
        step.write_text('#!/bin/sh\necho "step: $2"\n')
        step.chmod(0o755)
        self.env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "MUSTER_HOME": str(self.home)}

    def boots(self, script: str) -> "subprocess.CompletedProcess[str]":
        path = self.home.parent / "boot"
        path.write_text(script)
        path.chmod(0o755)
        return self._run([str(path)])

    def serves(self, text: str) -> "subprocess.CompletedProcess[str]":
        return self._run([sys.executable, "-"], text)

    def _run(self, argv: list[str], text: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            argv,
            cwd=self.work,
            env=self.env,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WITHIN,
            check=False,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def _script(github: FakeGitHub, boot_script: str = "", **given: Any) -> str:
    fields = {"version": VERSION, "sha256": (github.sha256,), "url": github.package_url, **given}
    runtime = GitHubRuntime(
        None,  # type: ignore[arg-type]  # GitHub is not asked
        RunnerPackage(**fields),
        installation_id="inst-1",
        web_url=github.url,
        directory=None,  # type: ignore[arg-type]  # nor here
    )
    spec = TemplateSpec(name="ci", provider="process", runtime="github", boot_script=boot_script)
    return runtime.boot_script(spec)


def test_a_boot_runs_the_operator_s_script_and_fetches_the_runner(github: FakeGitHub, node: Node) -> None:
    mine = "#!/bin/sh\necho mine; cat <<'MUSTER_END'\nheld\nMUSTER_END\n"
    said = node.boots(_script(github, mine))
    assert said.returncode == 0, said.stdout
    assert said.stdout.splitlines() == ["mine", "held", f"step: Actions runner {VERSION}"]
    assert os.access(node.home / "actions-runner" / "run.sh", os.X_OK)


def test_a_script_that_fails_fails_the_boot_with_its_own_code(github: FakeGitHub, node: Node) -> None:
    assert node.boots(_script(github, "echo no; exit 7\n")).returncode == 7
    assert not (node.home / "actions-runner").exists()


def test_a_package_that_is_not_the_one_that_was_pinned_is_not_used(github: FakeGitHub, node: Node) -> None:
    said = node.boots(_script(github, sha256=("0" * 64,)))
    assert said.returncode == 1
    assert github.sha256 in said.stdout and "not the one that is expected" in said.stdout
    assert not (node.home / "actions-runner").exists()


class _BreaksOff(BaseHTTPRequestHandler):
    """Closes each connection in the middle of the package, as often as it is told to, and says its length or
    sends it in chunks."""

    archive: bytes
    broken: int
    chunked: bool

    def do_GET(self) -> None:
        self.send_response(200)
        size = len(self.archive)
        sent = self.archive[: size // 2] if type(self).broken else self.archive
        type(self).broken -= bool(type(self).broken)
        if self.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.chunked:
            ends = b"\r\n0\r\n\r\n" if len(sent) == size else b""
            sent = f"{size:x}\r\n".encode() + sent + ends
        self.wfile.write(sent)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its name there
        pass


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("broken", "code"), [(2, 0), (3, 1)])
def test_a_download_that_broke_off_is_tried_again(
    github: FakeGitHub, node: Node, broken: int, code: int, chunked: bool
) -> None:
    told = {"archive": github.archive, "broken": broken, "chunked": chunked, "protocol_version": "HTTP/1.1"}
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_BreaksOff,), told)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        script = _script(github, url=f"http://127.0.0.1:{server.server_address[1]}/")
        said = node.boots(script.replace("PAUSE = 5.0", "PAUSE = 0.0"))
        server.shutdown()
    assert said.returncode == code, said.stdout
    assert ("cannot fetch the Actions runner" in said.stdout) == bool(code)


@pytest.mark.parametrize(("libraries", "code"), [("libc.so.6", 1), ("libicuuc.so.67", 0)])
def test_an_image_without_icu_fails_the_boot_with_the_way_to_get_it(
    github: FakeGitHub, node: Node, tmp_path: Path, libraries: str, code: int
) -> None:
    archive = tmp_path / "runner.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("bin/libcoreclr.so"))
    tool = tmp_path / "bin" / "ldconfig"
    tool.write_text(f"#!/bin/sh\necho '{libraries} (libc6,x86-64) => /lib64/{libraries}'\n")
    tool.chmod(0o755)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    said = node.boots(_script(github, url=archive.as_uri(), sha256=(sha256,)))
    assert said.returncode == code, said.stdout
    assert ("dnf install -y libicu" in said.stdout) is bool(code)
    assert (node.home / "actions-runner").exists() is not bool(code)


def test_a_runner_of_the_image_is_used_where_it_is(github: FakeGitHub, node: Node) -> None:
    assert node.boots(_script(github)).returncode == 0
    path = str(node.home / "actions-runner")
    assert node.boots(_script(github, path=path, version="")).returncode == 0
    said = node.boots(_script(github, path="/nowhere"))
    assert said.returncode == 1
    assert said.stdout.splitlines()[-1] == "there is no Actions runner in /nowhere"


def test_a_runner_of_an_image_without_icu_fails_the_boot_too(
    github: FakeGitHub, node: Node, tmp_path: Path
) -> None:
    assert node.boots(_script(github)).returncode == 0
    runner = node.home / "actions-runner"
    (runner / "bin" / "libcoreclr.so").touch()
    tool = tmp_path / "bin" / "ldconfig"
    tool.write_text("#!/bin/sh\necho 'libc.so.6 (libc6,x86-64) => /lib64/libc.so.6'\n")
    tool.chmod(0o755)
    said = node.boots(_script(github, path=str(runner), version=""))
    assert said.returncode == 1 and "dnf install -y libicu" in said.stdout


@pytest.mark.parametrize("number", [0, 1001])
def test_the_files_of_a_package_are_the_agent_s_whichever_user_packed_them(
    github: FakeGitHub, node: Node, tmp_path: Path, number: int
) -> None:
    archive = tmp_path / "runner.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("run.sh")
        member.uid = member.gid = number
        tar.addfile(member)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert node.boots(_script(github, url=archive.as_uri(), sha256=(sha256,))).returncode == 0
    assert (node.home / "actions-runner" / "run.sh").stat().st_uid == os.getuid()


@pytest.fixture
def booted(github: FakeGitHub, node: Node) -> Node:
    assert node.boots(_script(github)).returncode == 0
    return node


def test_a_just_in_time_runner_serves_one_job_without_knowing_its_secret(
    github: FakeGitHub, booted: Node
) -> None:
    world = github.world
    runner = world.register("acme/shop", "r-1", ["one"], ephemeral=True)
    secret = world.just_in_time(runner)
    run = world.begin("acme/shop")
    job = world.queue(run, "test", ["one"], "env; cat /proc/$PPID/cmdline")
    said = booted.serves(program("serve.py", {"path": "", "user": "", "jit": secret}))
    assert (said.returncode, said.stdout) == (0, "listening\n")
    assert job.conclusion == "success"
    assert secret not in job.output and "ACTIONS_RUNNER_INPUT" not in job.output
    assert world.named("acme/shop", "r-1") is None


def test_a_runner_that_cant_be_configured_says_why(github: FakeGitHub, booted: Node) -> None:
    url = f"{github.url}/{Scope.named('acme/shop')}"
    arguments = ["--unattended", "--url", url, "--name", "r-2", "--labels", "two"]
    given = {"path": "", "user": "", "token": "WRONG", "arguments": arguments}
    said = booted.serves(program("serve.py", given))
    assert said.returncode == 1
    assert said.stdout.startswith("the runner could not be configured\n") and "404" in said.stdout
    assert "WRONG" not in said.stdout


def test_a_runner_is_in_the_group_that_it_is_configured_for(github: FakeGitHub, booted: Node) -> None:
    world = github.world
    world.groups["acme"] = {"big": 7}
    words = ["--unattended", "--url", f"{github.url}/acme", "--labels", "two", "--ephemeral", "--replace"]
    run = world.begin("acme/shop")
    for group, code in (("huge", 1), ("big", 0)):
        given = [*words, "--name", f"r-{group}", "--runnergroup", group]
        world.queue(run, group, ["two"])
        token = world.registration("acme")
        said = booted.serves(
            program("serve.py", {"path": "", "user": "", "token": token, "arguments": given})
        )
        assert said.returncode == code, said.stdout
        assert ("Could not find any self-hosted runner group" in said.stdout) is bool(code)
        shutil.rmtree(booted.work / "actions-runner")


def test_a_runner_whose_registration_is_gone_says_why(github: FakeGitHub, booted: Node) -> None:
    runner = github.world.register("acme/shop", "r-3", ["three"], ephemeral=True)
    secret = github.world.just_in_time(runner)
    github.world.remove(runner)
    said = booted.serves(program("serve.py", {"path": "", "user": "", "jit": secret}))
    assert said.returncode == 1
    assert "before it listened for jobs" in said.stdout and "has been deleted" in said.stdout


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "listened for jobs\n"),
        (5, "a runner of the same name has a session"),
        (7, "GitHub refuses its version; set runner_version to the newest release"),
    ],
)
def test_how_the_real_runner_ends_before_it_listens_is_told_in_words(
    booted: Node, tmp_path: Path, code: int, words: str
) -> None:
    """The real one's exit codes, from its sources: the small GitHub's runner knows only 0 and 1."""
    place = tmp_path / "runner"
    place.mkdir()
    (place / "run.sh").write_text(f"#!/bin/sh\necho 'An error occurred'\nexit {code}\n")
    (place / "run.sh").chmod(0o755)
    said = booted.serves(program("serve.py", {"path": str(place), "user": "", "jit": "x"}))
    assert said.returncode == 1
    assert said.stdout.startswith(f"the runner ended with {code} before it listened for jobs")
    assert words in said.stdout and "An error occurred" in said.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a runner another user")
@pytest.mark.parametrize(
    ("code", "serves"),
    [(0, True), (8, True), (1, False), (6, False)],
    ids=["moved", "busy", "denied", "unknown"],
)
def test_a_user_whose_home_can_not_be_moved_runs_nothing_unless_it_is_only_busy(
    github: FakeGitHub, booted: Node, tmp_path: Path, code: int, serves: bool
) -> None:
    asked = tmp_path / "asked"
    tool = tmp_path / "bin" / "usermod"
    tool.write_text(f'#!/bin/sh\necho "$@" >{asked}\necho "usermod: no" >&2\nexit {code}\n')
    tool.chmod(0o755)
    booted.env["TMPDIR"] = str(tmp_path / "temporary")
    Path(booted.env["TMPDIR"]).mkdir()
    world = github.world
    runner = world.register("acme/shop", f"r-{code}", [f"home-{code}"], ephemeral=True)
    job = world.queue(world.begin("acme/shop"), "test", [f"home-{code}"], "id -un")
    given = {"path": "", "user": "nobody", "jit": world.just_in_time(runner)}
    said = booted.serves(program("serve.py", given))
    assert asked.read_text() == f"-d {booted.work} nobody\n"
    if serves:
        assert (said.returncode, said.stdout) == (0, "listening\n")
        assert job.output.strip() == "nobody"
        return
    assert said.returncode == 1
    what = "the home of user nobody could not be moved to its workspace"
    assert said.stdout.splitlines() == [what, "usermod: no"]
    assert job.conclusion is None, "no job runs with a home that outlives it"


@pytest.mark.parametrize("name", ["serve.py", "install.py"])
def test_the_programs_are_for_python_3_8(name: str) -> None:
    import ast

    ast.parse(program(name, {}), feature_version=(3, 8))
