"""Every benchmark works, as its command: at a tiny size, where its figures mean nothing."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import Figure
from bench.__main__ import main
from bench.chart import drawn
from bench.tiny import TINY

ROOT = Path(__file__).parents[2]
PATIENCE = 600


def bench(*given: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "bench", *given]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_runs_to_its_end_and_measures(name: str) -> None:
    done = bench("--tiny", name)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "value" in done.stdout, "a table of figures"


def test_every_benchmark_has_a_tiny_size() -> None:
    sources = (ROOT / "bench").glob("*.py")
    offered = [path.stem for path in sources if "\nasync def measure()" in path.read_text()]
    assert sorted(offered) == sorted(TINY)


def test_an_unknown_benchmark_is_refused_with_those_that_there_are() -> None:
    done = bench("speed")
    assert done.returncode == 2 and done.stderr.startswith("error: no benchmark 'speed'; there are: claims,")


def test_a_benchmark_that_breaks_is_told_after_the_others_ran(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broke() -> list[Figure]:
        raise RuntimeError("no room for it")

    async def worked() -> list[Figure]:
        return [Figure(name="speed", value=2.0, unit="m/s", floor=1.0, target=1.5)]

    monkeypatch.setattr("bench.claims.measure", broke)
    monkeypatch.setattr("bench.startup.measure", worked)
    assert main(["--tiny", "claims", "startup"]) == 1
    said = capsys.readouterr()
    assert "no room for it" in said.out and "2.0 m/s" in said.out
    assert said.err == "error: claims broke; what each said is above\n"


def test_the_picture_shows_each_figure_beside_its_floor_and_target() -> None:
    met = Figure(name="claims <fast>", value=2.0, unit="/s", floor=1.0, target=1.5)
    missed = Figure(name="wait", value=9.0, unit="ms", limit=3.0, lower_is_better=True)
    picture = ElementTree.fromstring(drawn([met, missed]))  # noqa: S314 — our own
    bars = [each.get("fill") for each in picture if each.tag.endswith("rect")][1:]
    assert bars == ["#2e8b57", "#c0392b"]
    assert sum(each.tag.endswith("path") for each in picture) == 3
