"""Setting up .venv: long steps are told, uv is pinned by the lock, and pip's settings hold for it too."""

import sys
from pathlib import Path

import pytest

from tools import environment, progress

ROOT = Path(__file__).parents[2]


def test_a_long_step_is_told_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    reading = "import sys; sys.stdin.read(1)"
    assert progress.run("Doing it", [sys.executable, "-c", reading], quiet=True) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[0] == "Doing it" and all("s so far" in line for line in said[1:])
    assert progress.EVERY < 10.0


def test_what_a_quiet_step_wrote_is_shown_only_if_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    for code in (0, 3):
        program = f"print('its words'); raise SystemExit({code})"
        assert progress.run("Doing it", [sys.executable, "-c", program], quiet=True) == code
        assert ("its words" in capfd.readouterr().out) is bool(code)


def test_uv_alone_is_taken_from_the_lock_with_its_hashes() -> None:
    found = environment.block((ROOT / "requirements.lock").read_text(), "uv").splitlines()
    assert found[0].startswith("uv==") and len(found) > 2
    assert all(line.startswith("    --hash=sha256:") for line in found[1:])
    assert not found[-1].endswith("\\")


def test_where_pip_looks_is_told_to_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://one.test/simple\nfind-links = /a /b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    told = environment.settings()
    assert told[told.index("--index-url") + 1] == "https://one.test/simple"
    assert "/a" in told and "/b" in told
