import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from muster.config import load
from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.integrations.process.probe import probe
from muster.integrations.process.sandbox import Isolation, Sandbox
from muster.slots.processes import carriers
from muster.testing.provider_contract import asking, ids, listed, until_gone
from tests.integrations.process.lab import PYTHON, STAND_IN, Lab, recorded, unlocked

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed (Debian: apt-get install bubblewrap)"
)


@needs_bubblewrap
async def test_a_sandboxed_node_sees_its_own_directory_and_processes_and_little_else(
    lab: Lab, tmp_path: Path
) -> None:
    token_file = lab.root.parent / "admin-token"
    token_file.parent.mkdir(parents=True)
    token_file.write_text("hush")
    beside = tmp_path / "beside"
    beside.write_text("a user's file")
    hidden = [
        str(token_file),
        str(lab.root),
        str(beside),
        "/etc/shadow",
        "/root/.bashrc",
        "/var/lib",
        "/home",
    ]
    shown = ["/usr/bin/env", "/etc/passwd", "/node"]
    looking = "=".join(["plain", *hidden, *shown])
    provider = lab.provider(looking, isolation=Isolation.SANDBOX)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    assert agent.facts["pid"] == 2
    assert agent.facts["directory"] == agent.facts["environment"]["HOME"] == "/node"
    assert agent.facts["sees"] == dict.fromkeys(hidden, False) | dict.fromkeys(shown, True)
    assert agent.facts["umask"] == 0o077 and agent.facts["core"] == [0, 0]
    slot = lab.slot(answer.machines[0].id)
    record = slot.record()
    assert record is not None and record.isolation == "sandbox"
    # bubblewrap leaves PWD in the environment.
    assert set(agent.facts["environment"]) - {"LC_CTYPE", "PWD"} == {
        "PATH",
        "LANG",
        "TZ",
        "HOME",
        "MUSTER_WIPE",
        "MUSTER_SLOT",
    }


@needs_bubblewrap
async def test_sandboxed_nodes_share_neither_directory_nor_tmp(lab: Lab) -> None:
    provider = lab.provider(isolation=Isolation.SANDBOX)
    answer = await provider.launch(asking("t1", 2))
    await lab.desk.met(2)
    first, second = (lab.slot(machine_id) for machine_id in ids(answer))
    assert first.work != second.work and first.tmp != second.tmp
    for slot in (first, second):
        record = slot.record()
        assert record is not None
        namespaces = set()
        for pid, _ in carriers({record.marker}):
            with suppress(FileNotFoundError):  # it ended meanwhile
                namespaces.add(os.stat(f"/proc/{pid}/ns/pid").st_ino)  # noqa: PTH116
        assert len(namespaces) == 2, "the keeper's and the node's own"


@needs_bubblewrap
async def test_a_sandboxed_agent_hears_sigterm_and_ends_in_peace(lab: Lab) -> None:
    provider = lab.provider(isolation=Isolation.SANDBOX)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    await provider.terminate(ids(answer))
    await agent.died()
    await until_gone(provider, ids(answer))
    assert "exit status 0, as asked for" in (await provider.console(ids(answer)[0], lines=3) or "")


@needs_bubblewrap
async def test_a_deaf_sandboxed_tree_is_killed_whole(lab: Lab) -> None:
    provider = lab.provider("deaf", isolation=Isolation.SANDBOX, grace=0.2)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    await provider.terminate(ids(answer))
    await agent.died()
    await stray.died()
    await until_gone(provider, ids(answer))


@needs_bubblewrap
async def test_a_killed_keeper_takes_the_whole_sandbox_along(lab: Lab) -> None:
    provider = lab.provider("daemon", isolation=Isolation.SANDBOX)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    slot = lab.slot(ids(answer)[0])
    os.kill(await recorded(slot), signal.SIGKILL)
    await agent.died()
    await stray.died()
    await unlocked(slot)
    await until_gone(provider, ids(answer))


@needs_bubblewrap
async def test_auto_takes_the_sandbox_where_it_works(lab: Lab) -> None:
    report = await lab.provider(isolation=Isolation.AUTO).report()
    assert report.isolation is Isolation.SANDBOX and report.notice == ""


@needs_bubblewrap
async def test_a_python_of_a_virtual_environment_is_shown_with_its_real_location(
    lab: Lab, tmp_path: Path
) -> None:
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(PYTHON)
    (venv.parent / "pyvenv.cfg").write_text(f"home = {Path(PYTHON).parent}\n")
    secrets = venv.parent / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("hush")
    provider = lab.provider(
        isolation=Isolation.SANDBOX,
        python=str(venv / "python"),
        agent=(str(venv / "python"), "-I", STAND_IN, f"plain={secrets / 'token'}={venv}"),
        hidden=[secrets],
    )
    await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    assert agent.facts["pid"] == 2
    assert agent.facts["sees"] == {str(secrets / "token"): False, str(venv): True}


@needs_bubblewrap
def test_muster_may_be_installed_below_a_directory_that_jobs_have_of_their_own(
    public: Path, tmp_path: Path
) -> None:
    venv = public / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(PYTHON)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(PYTHON).parent}\n")
    sandbox = probe(python=str(venv / "bin" / "python"), agent=(), hidden=(), scratch=tmp_path)
    assert isinstance(sandbox, Sandbox), sandbox


@needs_bubblewrap
def test_a_job_reads_none_of_the_files_that_the_configuration_names(tmp_path: Path) -> None:
    """They lie where it sees all else: beside the Python that it runs with."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.symlink_to(PYTHON)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(PYTHON).parent}\n")
    (venv / "files").mkdir()
    named = {name: venv / name for name in ("files/result", "token", "key.pem", "a.toml", "b.toml")}
    for name, path in named.items():
        path.write_text(f"# secret of {name}\n")
        path.chmod(0o644)
    server = f'[server]\nfiles_dir = "{venv}/files"\n[github]\n'
    with named["a.toml"].open("a") as file:
        file.write(f'{server}token_file = "{named["token"]}"\n')
    with named["b.toml"].open("a") as file:
        file.write(f'{server}app_id = "1"\nprivate_key_file = "{named["key.pem"]}"\n')
    private = [path for name in ("a.toml", "b.toml") for path in load(named[name]).private]

    def read(hidden: Sequence[Path], place: Path) -> str:
        for directory in (place, place / "probe", place / "node"):
            directory.mkdir()
        sandbox = probe(python=str(python), agent=(), hidden=hidden, scratch=place / "probe")
        assert isinstance(sandbox, Sandbox), sandbox
        sandbox.prepare(place / "node", "")
        (place / "node" / "work" / "home").mkdir(mode=0o755)
        shown = ["cat", *map(str, named.values())]
        job = [*filter(None, sandbox.job("")), "--remount-ro", "/", "--", *shown]
        command = sandbox.wrap(job, place=place / "node", machine_id="")
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    assert read((), tmp_path / "open").count("# secret of") == len(named)
    assert read(private, tmp_path / "hidden") == ""


@needs_bubblewrap
@pytest.mark.parametrize("replaced", ["passwd", "agent.py"])
def test_jobs_still_start_after_the_machine_replaced_a_file_that_the_node_shows(
    tmp_path: Path, replaced: str
) -> None:
    """`useradd` replaces /etc/passwd, an upgrade the agent: neither may break nodes that are warm."""
    place = tmp_path / "node"
    for directory in (place, tmp_path / "probe"):
        directory.mkdir()
    agent = place / "agent.py"
    agent.touch()
    sandbox = probe(python=PYTHON, agent=(str(agent),), hidden=(), scratch=tmp_path / "probe")
    assert isinstance(sandbox, Sandbox), sandbox
    sandbox.prepare(place, "")
    (place / "work" / "home").mkdir(mode=0o755)
    job = [*filter(None, sandbox.job("")), "--remount-ro", "/", "--", "id", "-un"]
    command = sandbox.wrap(["sh", "-c", 'echo up; read go; "$@"', "sh", *job], place=place, machine_id="")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == "up\n"
        shutil.copy(place / replaced, tmp_path / "newer")
        (tmp_path / "newer").replace(place / replaced)
        assert node.communicate("go\n") == ("node\n", "")


@needs_bubblewrap
async def test_a_bubblewrap_that_cannot_forbid_user_namespaces_is_taken_and_told_of(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sandbox", "probe"):
        monkeypatch.setattr(f"muster.integrations.process.{module}.NO_NESTING", "--of-a-later-version")
    report = await lab.provider(isolation=Isolation.AUTO).report()
    assert report.isolation is Isolation.SANDBOX
    assert any("jobs can make user namespaces" in fact.words for fact in report.facts)


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)


@pytest.mark.usefixtures("no_bubblewrap")
async def test_auto_without_bubblewrap_runs_unsandboxed_and_says_so(lab: Lab) -> None:
    provider = lab.provider(isolation=Isolation.AUTO)
    report = await provider.report()
    assert report.isolation is Isolation.NONE
    assert "without a sandbox" in report.notice and "not installed" in report.notice
    assert len((await provider.launch(asking("t1"))).machines) == 1


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_sandbox_that_is_demanded_but_missing_is_a_refusal(lab: Lab) -> None:
    provider = lab.provider(isolation=Isolation.SANDBOX)
    with pytest.raises(Refused, match="bubblewrap is not installed") as caught:
        await provider.launch(asking("t1"))
    assert caught.value.reason is Reason.PROVIDER_REFUSED
    assert await listed(provider) == []


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user reaches, and no sandbox hides."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_bubblewrap_that_fails_is_not_believed(
    lab: Lab, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = public / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(broken))
    report = await lab.provider(isolation=Isolation.AUTO).report()
    assert report.isolation is Isolation.NONE and "uid map: Permission denied" in report.notice


async def test_a_bubblewrap_that_hides_nothing_is_not_believed(
    lab: Lab, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = public / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(fake))
    report = await lab.provider(isolation=Isolation.AUTO).report()
    assert report.isolation is Isolation.NONE
    # A root server gives up root first. Without a real bubblewrap it may then not even reach its Python.
    unreached = os.geteuid() == 0 and "fails here" in report.notice
    assert unreached or "doesn't isolate here" in report.notice
