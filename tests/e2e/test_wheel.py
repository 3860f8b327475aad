"""What `make dist` builds, installed into an empty environment, does the main job."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "muster" / "dashboard" / "index.html"


def done(*words: str | Path, **more: str) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MUSTER_", "PYTHON", "VIRTUAL_ENV"))
    }
    result = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        env={**environment, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{words}: {result.stdout[-2000:]}{result.stderr[-2000:]}"
    return result.stdout


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.exists(), reason="the page is not built: run make web")
def test_the_wheel_alone_serves_provisions_and_shows_the_page(tmp_path: Path) -> None:
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    uv = Path(sys.executable).with_name("uv")
    home = {
        "HOME": str(tmp_path / "home"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
    }
    done(uv, "tool", "install", "--python", sys.executable, wheel, **home)
    muster = tmp_path / "bin" / "muster"
    assert done(muster, "--version", **home).startswith("muster ")
    said = done(muster, "demo", **home)
    assert "0 leaked" in said.splitlines()[-1], said
    installed = list((tmp_path / "tools").rglob("muster/dashboard/index.html"))
    assert len(installed) == 1
    done(uv, "tool", "uninstall", "muster-compute", **home)
    assert not muster.exists()
    left = [path for place in ("tools", "bin", "home") for path in (tmp_path / place).rglob("*muster*")]
    assert left == []
