from datetime import UTC, datetime

import pytest

from muster.cli import charts
from muster.cli.durations import format_taken
from muster.domain.boot import Distribution, Learned, Span
from muster.domain.deadlines import Deadline
from muster.wire.boots import Booted, BootKind, Timeline

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USUAL = Distribution(count=57, p50=44.0, p95=61.0, p99=70.25, longest=70.25)


def timeline(*spans: tuple[str, float], usual: Distribution | None = None) -> Timeline:
    made = tuple(Span(name=name, seconds=seconds) for name, seconds in spans)
    total = sum(seconds for _, seconds in spans)
    return Timeline(node_id="n", created_at=NOW, seconds=total, spans=made, usual=usual)


def test_a_timeline_starts_each_bar_where_the_one_before_ended() -> None:
    lines = charts.timeline(timeline(("launch", 10.0), ("boot_script: pull", 20.0), usual=USUAL))
    assert lines == [
        "launch               10.0 s  ██████████",
        "boot_script: pull    20.0 s            ████████████████████",
        "in all               30.0 s  usually 44.0 s, p99 1m 10s (of 57)",
    ]


def test_the_shortest_phase_still_shows() -> None:
    lines = charts.timeline(timeline(("launch", 0.001), ("boot_script", 400.0)))
    assert "▏" in lines[0]
    assert lines[-1].split() == ["in", "all", "6m", "40s"]


def test_nothing_is_drawn_of_nothing() -> None:
    assert charts.timeline(timeline()) == []
    assert charts.sparkline([]) == ""
    assert charts.timeline(timeline(("launch", 0.0)))[0].rstrip() == "launch    0.00 s"


@pytest.mark.parametrize("more", [-1, 0, 1, 100])
def test_the_middle_of_a_long_timeline_is_folded_and_nothing_of_its_time_is_lost(more: int) -> None:
    count = charts.LINES_MOST + more
    lines = charts.timeline(timeline(*((f"step {number}", 1.0) for number in range(count))))
    assert len(lines) == min(count, charts.LINES_MOST) + 1
    assert (lines[0].split()[:2], lines[-2].split()[:2]) == (["step", "0"], ["step", f"{count - 1}"])
    folded = [line.split() for line in lines if line.startswith("…")]
    if more <= 0:
        assert folded == []
    else:
        hidden = more + 1
        assert [line[1:3] for line in folded] == [[f"{hidden}", "more"]]
        assert format_taken(float(hidden)) in " ".join(folded[0])


def test_a_name_that_is_too_long_is_cut() -> None:
    (line, _) = charts.timeline(timeline(("x" * 300, 1.0)))
    assert len(line) < 100 and "…" in line


def test_boots_are_told_with_their_basis() -> None:
    kind = BootKind(
        instance_type="m5.large",
        total=USUAL,
        phases=(Span(name="launch", seconds=2.0),),
        last=tuple(Booted(node_id="n", booted_at=NOW, seconds=s) for s in (70.0, 35.0, 1.0)),
        learned=Learned(seconds=105.3, basis="p99 of 57 boots"),
        deadline=Deadline(seconds=720.0, source="default"),
    )
    assert charts.boots(kind) == [
        "m5.large: p50 44.0 s · p95 1m 01s · p99 1m 10s · longest 1m 10s (57 boots)",
        "last 3: ▁▅█",
        "deadline 12m 00s (default)",
        "learned 1m 45s (p99 of 57 boots)",
        "  launch     2.0 s  ██████████████████████████████",
    ]
