"""`muster init` and `muster service`, as somebody who sets up a machine uses them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli import service
from muster.cli.exits import UsageProblem
from muster.cli.service import unit_text
from muster.config import load


def muster(*words: str, within: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", *words],
        cwd=within,
        env={**os.environ, "HOME": str(within), "XDG_CONFIG_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_file_that_was_written_is_one_that_a_server_reads(tmp_path: Path) -> None:
    given = ["--public-url", "https://m.example.com", "--store", "postgresql://m@db/m", "--max-nodes", "50"]
    done = muster("init", *given, "--template", "tests", within=tmp_path)
    assert done.returncode == 0, done.stderr
    config = load(tmp_path / "muster.toml")
    assert (config.max_nodes, config.server.store) == (50, "postgresql://m@db/m")
    assert list(config.server.public_url) == ["https://m.example.com"]
    assert [each.name for each in config.templates] == ["tests"]
    for step in ("muster serve", "muster service install", "muster apply", "muster doctor"):
        assert step in done.stdout


def test_a_second_init_changes_nothing_without_being_told(tmp_path: Path) -> None:
    assert muster("init", within=tmp_path).returncode == 0
    first = (tmp_path / "muster.toml").read_text()
    same = muster("init", within=tmp_path)
    assert same.returncode == 0 and "nothing was changed" in same.stdout
    other = muster("init", "--max-nodes", "3", within=tmp_path)
    assert other.returncode == 2 and "repeat with --yes" in other.stderr
    assert (tmp_path / "muster.toml").read_text() == first
    assert muster("init", "--max-nodes", "3", "--yes", within=tmp_path).returncode == 0
    assert (tmp_path / "muster.toml.1").read_text() == first
    assert load(tmp_path / "muster.toml").max_nodes == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--public-url", "nowhere"), "public_url must be a URL"),
        (("--template", "No Good"), "template"),
        (("--store", "mysql://x"), "store"),
    ],
)
def test_what_a_server_would_refuse_is_refused_and_nothing_is_written(
    given: tuple[str, str], words: str, tmp_path: Path
) -> None:
    done = muster("init", *given, within=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not (tmp_path / "muster.toml").exists()


@pytest.mark.parametrize("store", ["postgresql://u:hush@db/m", "postgresql://u@db/m?password=hush"])
def test_a_password_is_not_written_into_a_file_that_others_read(store: str, tmp_path: Path) -> None:
    done = muster("init", "--store", store, within=tmp_path)
    assert done.returncode == 2 and "hush" not in done.stdout + done.stderr
    assert "MUSTER_STORE" in done.stderr and "/etc/muster/environment" in done.stderr
    assert not (tmp_path / "muster.toml").exists()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "/plain"),
        ("a b", '"/a b"'),
        ("50%h", "/50%%h"),
        ("$HOME", "/$$HOME"),
        ('a"\\b', '"/a\\"\\\\b"'),
        ("it's", '"/it\'s"'),
    ],
)
def test_a_path_reaches_the_server_as_it_is_whatever_systemd_reads_into_it(name: str, written: str) -> None:
    unit = unit_text(("/opt/a b$/muster",), settings=Path("/", name), user=True)
    assert f'ExecStart="/opt/a b$/muster" serve --config {written} --log-format json\n' in unit


def test_the_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    muster("init", within=tmp_path)
    done = muster(
        "service", "install", "--root", str(tmp_path / "root"), "-f", "muster.toml", within=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (unit,) = (tmp_path / "root").rglob("muster.service")
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert "muster.service" not in checked.stderr.replace(str(unit.parent), ""), checked.stderr
    text = unit.read_text()
    assert "KillMode=process" in text, "nodes outlive the server"
    assert f"--config {tmp_path}/muster.toml" in text


@pytest.mark.parametrize("verb", ["install", "show"])
def test_a_service_without_its_settings_file_is_refused(verb: str, tmp_path: Path) -> None:
    root = ("--root", str(tmp_path / "root")) if verb == "install" else ()
    done = muster("service", verb, *root, "-f", "lost.toml", within=tmp_path)
    assert done.returncode == 2 and "lost.toml: there is no such file" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("muster.service"))


def test_where_systemd_does_not_run_nothing_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "BOOTED", tmp_path / "absent")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    said = CliRunner().invoke(service.app, ["install", "--user"])
    assert isinstance(said.exception, UsageProblem), said
    assert "systemd does not run this machine" in str(said.exception)
    unit = tmp_path / "systemd" / "user" / service.NAME
    assert not unit.exists()
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text("[Unit]\n")
    assert CliRunner().invoke(service.app, ["uninstall", "--user", "--yes"]).exit_code == 0
    assert not unit.exists(), "a unit of an earlier install can be removed"


def test_a_service_whose_user_could_not_read_its_files_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "root"
    home.mkdir(mode=0o700)
    (home / "muster.toml").touch(mode=0o644)
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(service, "_program", lambda: ("/bin/sh",))
    said = CliRunner().invoke(service.app, ["install", "-f", str(home / "muster.toml")])
    assert isinstance(said.exception, UsageProblem), said
    assert f"user muster can't read {home}/muster.toml" in str(said.exception)


def test_a_service_is_installed_again_only_when_it_may_and_uninstalled_without_a_rest(tmp_path: Path) -> None:
    root = ("--root", str(tmp_path / "root"))
    assert muster("service", "install", *root, within=tmp_path).returncode == 0
    (unit,) = (tmp_path / "root").rglob("muster.service")
    unit.write_text(unit.read_text() + "# mine\n")
    assert muster("service", "install", *root, within=tmp_path).returncode == 2
    assert "# mine" in unit.read_text()
    gone = muster("service", "uninstall", *root, "--yes", "--output", "json", within=tmp_path)
    assert json.loads(gone.stdout)["removed"] is True
    assert not unit.exists()
    again = muster("service", "uninstall", *root, "--yes", within=tmp_path)
    assert again.returncode == 0 and "nothing to remove" in again.stdout
