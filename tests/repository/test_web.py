"""What `web/` promises: a lock without hosts, nothing built in git, all of it in a package."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"


def test_the_lock_names_no_host_and_every_package_by_its_hash() -> None:
    text = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in text and '"resolved"' not in text
    packages = json.loads(text)["packages"]
    assert len(packages) > 1
    assert [name for name, told in packages.items() if name and "integrity" not in told] == []


def test_the_lock_knows_the_builders_parts_for_every_system() -> None:
    """A lock that was written beside an old node_modules has those of the writer's system alone."""
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for builder in ("rolldown", "typescript-7", "lightningcss"):
        told = packages[f"node_modules/{builder}"].get("optionalDependencies", {})
        assert told
        assert [name for name in told if f"node_modules/{name}" not in packages] == []


def test_the_page_asks_only_its_own_server() -> None:
    for path in [
        WEB / "index.html",
        *WEB.glob("public/*"),
        *WEB.glob("src/**/*.ts*"),
        *WEB.glob("src/**/*.css"),
    ]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path
        assert "https://" not in text, path


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_nothing_built_is_in_git() -> None:
    built = ("src/muster/dashboard/index.html", "web/generated/schema.ts", "web/node_modules/react/index.js")
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *built], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode == 128:
        pytest.skip("this is no git checkout")
    assert asked.stdout.split() == list(built)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """As much of this project as a package is made of."""
    (tmp_path / "src" / "muster").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "src/muster/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _packed(project: Path) -> tuple[list[str], list[str]]:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", "dist"],
        cwd=project,
        check=True,
        capture_output=True,
    )
    (wheel,), (archive,) = project.glob("dist/*.whl"), project.glob("dist/*.tar.gz")
    with zipfile.ZipFile(wheel) as whole, tarfile.open(archive) as source:
        return whole.namelist(), source.getnames()


def test_a_package_has_the_page_that_was_built_although_git_ignores_it(project: Path) -> None:
    page = project / "src" / "muster" / "dashboard" / "assets"
    page.mkdir(parents=True)
    (page.parent / "index.html").write_text("<!doctype html>")
    (page / "index-1a2b.js").write_text("")
    wheel, archive = _packed(project)
    for name in ("dashboard/index.html", "dashboard/assets/index-1a2b.js"):
        assert f"muster/{name}" in wheel
        assert [path for path in archive if path.endswith(f"src/muster/{name}")]


def test_a_package_can_be_made_without_the_page(project: Path) -> None:
    wheel, _ = _packed(project)
    assert [name for name in wheel if "dashboard" in name] == []
    assert "muster/__init__.py" in wheel
