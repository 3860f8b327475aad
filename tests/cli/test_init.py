"""`muster init` and `muster service`, as a person who sets up a machine uses them."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli import service
from muster.cli.exits import UsageProblem
from muster.cli.init import init
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


def test_a_place_that_cannot_be_written_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for place, words in (
        (".", "is no file"),
        ("/dev/zero", "is no file"),
        ("/proc/x/m.toml", "cannot write"),
    ):
        done = muster("init", "-f", place, "--yes", within=tmp_path)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert "unexpected" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["binary.toml"]
    assert muster("init", "-f", "binary.toml", "--yes", within=tmp_path).returncode == 0
    assert (tmp_path / "binary.toml.1").read_bytes() == b"\xff\xfe", "also one that is no text is kept"


def test_files_with_similar_names_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("muster.toml", "muster.toml.new", "muster.toml.1"):
        (tmp_path / name).write_text(name)
    (tmp_path / "muster.toml.2").symlink_to("lost")
    assert muster("init", "--yes", within=tmp_path).returncode == 0
    for name in ("muster.toml.new", "muster.toml.1"):
        assert (tmp_path / name).read_text() == name
    assert (tmp_path / "muster.toml.2").is_symlink()
    assert (tmp_path / "muster.toml.3").read_text() == "muster.toml"
    assert len(list(tmp_path.iterdir())) == 5, "nothing else is left behind"


def test_a_private_file_stays_private_and_so_does_its_copy(tmp_path: Path) -> None:
    file = tmp_path / "muster.toml"
    file.touch(mode=0o600)
    if os.geteuid() == 0:
        shutil.chown(file, "daemon", "daemon")
    before = file.stat()
    assert muster("init", "--yes", within=tmp_path).returncode == 0
    assert file.stat().st_size > 0
    for each in (file, tmp_path / "muster.toml.1"):
        found = each.stat()
        assert (found.st_mode, found.st_uid, found.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "real.toml").write_text("[installation]\n")
    (tmp_path / "muster.toml").symlink_to("etc/real.toml")
    assert muster("init", "--max-nodes", "3", "--yes", within=tmp_path).returncode == 0
    assert (tmp_path / "muster.toml").is_symlink()
    assert load(tmp_path / "etc" / "real.toml").max_nodes == 3
    assert (tmp_path / "etc" / "real.toml.1").read_text() == "[installation]\n"


def test_a_file_whose_replacement_fails_at_the_last_step_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "muster.toml"
    file.write_text("[installation]\n")

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(UsageProblem, match="nothing was changed"):
        init(file=file, yes=True)
    assert file.read_text() == "[installation]\n"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="a small disk needs root on Linux")
def test_a_full_disk_leaves_the_present_file_as_it_is(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        (small / "muster.toml").write_text("[installation]\n")
        with (small / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        done = muster("init", "-f", str(small / "muster.toml"), "--yes", within=tmp_path)
        assert done.returncode == 2 and "No space left" in done.stderr, done.stderr
        assert (small / "muster.toml").read_text() == "[installation]\n"
        assert sorted(each.name for each in small.iterdir()) == ["filler", "muster.toml"]
    finally:
        subprocess.run(["umount", small], check=True)


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


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with systemd, as root sees it: directories that others may enter, and a user with a group."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        home.chmod(0o755)
        for name in ("systemctl", "useradd"):
            script = home / name
            script.write_text(f'#!/bin/sh\necho {name} "$@" >> {home}/calls\n')
            script.chmod(0o755)
        (home / "muster").write_text("#!/bin/sh\nexit 0\n")
        (home / "muster").chmod(0o755)
        (home / "muster.toml").touch(mode=0o644)
        monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
        monkeypatch.setattr(service, "BOOTED", home)
        monkeypatch.setattr(service, "ACCOUNT", "daemon")
        monkeypatch.setattr(service, "HIDDEN", ())
        monkeypatch.setattr(service, "_program", lambda: (str(home / "muster"),))
        place = service.Place(unit=home / "units" / service.NAME, user=False, live=True)
        monkeypatch.setattr(service, "_place", lambda **_: place)
        yield home


def refusal(home: Path, settings: Path) -> str:
    """Install the service. Return why it was refused; nothing was changed then."""
    said = CliRunner().invoke(service.app, ["install", "-f", str(settings), "--yes"])
    unit, calls = home / "units" / service.NAME, home / "calls"
    if said.exception is None:
        assert f"--config {settings} " in unit.read_text() and "enable --now" in calls.read_text()
        return ""
    assert isinstance(said.exception, UsageProblem), said
    assert not unit.exists() and not calls.exists()
    return str(said.exception)


def test_a_service_reads_its_settings_with_the_groups_of_its_user(machine: Path) -> None:
    settings = machine / "muster.toml"
    settings.chmod(0o640)
    assert f"user daemon can't read {settings} (cat: {settings}: Permission denied)" in refusal(
        machine, settings
    )
    shutil.chown(settings, group="daemon")
    assert refusal(machine, settings) == ""


def test_a_service_follows_links_and_directories_to_its_settings(machine: Path) -> None:
    private = machine / "private"
    private.mkdir(mode=0o700)
    (private / "muster.toml").touch(mode=0o644)
    link = machine / "link.toml"
    link.symlink_to(private / "muster.toml")
    for path in (private / "muster.toml", link):
        assert f"can't read {path}" in refusal(machine, path)
    link.unlink()
    link.symlink_to(machine / "muster.toml")
    assert refusal(machine, link) == ""


def test_a_service_whose_interpreter_is_private_is_refused(machine: Path) -> None:
    """As one that pipx installed for root: the program is open to all, its interpreter lies in /root."""
    private = machine / "private"
    private.mkdir(mode=0o700)
    shutil.copy("/bin/sh", private / "python")
    (machine / "muster").write_text(f"#!{private}/python\nexit 0\n")
    said = refusal(machine, machine / "muster.toml")
    assert f"user daemon can't run {machine}/muster" in said and "pipx install --global" in said


def test_a_user_who_is_yet_to_be_made_has_the_rights_of_a_stranger_and_of_the_group(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ACCOUNT", "muster-that-is-not-there")
    settings = machine / "muster.toml"
    settings.chmod(0o640)
    assert "can't read" in refusal(machine, settings)
    settings.chmod(0o644)
    assert refusal(machine, settings) == ""
    assert "useradd --system --user-group" in (machine / "calls").read_text()


def test_an_uninstall_says_what_stays(machine: Path) -> None:
    assert refusal(machine, machine / "muster.toml") == ""
    said = CliRunner().invoke(service.app, ["uninstall", "--yes"])
    assert not (machine / "units" / service.NAME).exists()
    assert "what stays:   the user daemon, /var/lib/muster" in said.stdout and "userdel daemon" in said.stdout


@pytest.mark.parametrize("linked", [False, True])
def test_what_the_temporary_directory_of_the_service_hides_is_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    hidden = machine / "tmp"
    hidden.mkdir()
    monkeypatch.setattr(service, "HIDDEN", (hidden,))
    settings = hidden / "muster.toml"
    settings.touch(mode=0o644)
    if linked:
        link = machine / "link.toml"
        link.symlink_to(settings)
        settings = link
    assert f"would not see {settings}" in refusal(machine, settings)


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
