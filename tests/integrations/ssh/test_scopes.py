"""Limits by systemd: a stand-in for systemd-run does what the real one does with `--scope`: it becomes the
command, with the same descriptors and environment."""

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.integrations.ssh import bundle, scopes
from muster.testing.provider_contract import asking, ids, listed
from tests.e2e.site import until
from tests.integrations.ssh.lab import PYTHON, Lab, needs_sshd
from tests.integrations.ssh.test_contract import TEMPLATE

SIZE = SimpleNamespace(cpu=2, memory_mib=4096)
RUN = """#!{python}
import json, os, sys
words = sys.argv[1:]
end = words.index("--")
json.dump(words[:end], open({told!r}, "a"))
os.execv(words[end + 1], words[end + 1:])
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that looks as if systemd ran it; where its systemd-run writes its words."""
    programs = tmp_path / "programs"
    programs.mkdir()
    told = tmp_path / "told"
    run = programs / "systemd-run"
    run.write_text(RUN.format(python=PYTHON, told=str(told)))
    run.chmod(0o755)
    monkeypatch.setattr(scopes, "RUNNING", tmp_path)
    monkeypatch.setattr(scopes, "LINGER", tmp_path / "linger")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return told


def test_root_gets_a_scope_of_the_system_with_the_limits_of_the_class(
    systemd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    argv = scopes.command("l-0.1", SIZE, "auto")
    assert argv[1:] == [
        "--scope",
        "--quiet",
        "--collect",
        "--unit=muster-l-0.1",
        "--property=MemoryMax=4096M",
        "--property=MemorySwapMax=0",
        "--property=CPUQuota=200%",
        f"--property=TasksMax={scopes.PIDS}",
        "--",
    ]
    assert scopes.environment(argv) == {}
    assert scopes.command("l-0.1", SIZE, "rlimits") == []


def test_another_user_gets_one_only_while_lingering(
    systemd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1)  # daemon, on every system
    monkeypatch.setattr(scopes, "_runtime", lambda: tmp_path / "runtime")
    assert scopes.command("l-0.1", SIZE, "auto") == []
    (tmp_path / "runtime" / "systemd").mkdir(parents=True)
    (tmp_path / "linger").mkdir()
    (tmp_path / "linger" / "daemon").touch()
    argv = scopes.command("l-0.1", SIZE, "auto")
    assert "--user" in argv
    assert scopes.environment(argv) == {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}


def test_without_systemd_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "RUNNING", tmp_path / "nothing")
    assert scopes.kind("auto") == ""


@needs_sshd
async def test_a_node_in_a_scope_keeps_its_lock_and_its_secret(
    lab: Lab, tmp_path: Path, systemd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root has scopes of the system")
    machine = lab.host("web1")
    wrapper = tmp_path / "python-with-systemd"
    programs = systemd.with_name("programs")
    wrapper.write_text(f'#!/bin/sh\nPATH={programs}:$PATH exec {PYTHON} "$@"\n')
    wrapper.chmod(0o755)
    really = bundle.source("muster.integrations.ssh.scopes")
    faked = really.replace('Path("/run/systemd/system")', 'Path("/")')
    assert faked != really
    program = bundle.program().replace(json.dumps(repr(really))[1:-1], json.dumps(repr(faked))[1:-1])
    assert program != bundle.program()
    monkeypatch.setattr(bundle, "program", lambda: program)
    provider = lab.provider(lab.inventory({"web1": {"python": str(wrapper)}}))
    made = ids(await provider.launch(asking("t1", 1, template=TEMPLATE)))
    unit = f"--unit=muster-{made[0].partition('@')[0]}"
    await asyncio.to_thread(until, lambda: systemd.exists() and unit in systemd.read_text(), "the scope")
    assert ids(await listed(provider)) == made
    assert machine.slot(made[0]).locked()
