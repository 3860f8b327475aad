import dataclasses
import io
import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace
from rich.console import Console

from muster.cli import output, progress_views
from muster.client.reconnects import ConnectionChange
from muster.domain.operation import Kind, Status
from muster.domain.progress import Tone, crept
from muster.wire.operations import Detail, Motion, Part, Progress

NOW = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
PROGRESS = Progress(
    operation_id="op-1",
    kind=Kind.PROVISION,
    status=Status.RUNNING,
    phase="booting",
    label="Booting and attaching",
    step=3,
    total_steps=5,
    message="waiting for 2 nodes",
    percent=42.0,
    eta_seconds=8.0,
    elapsed_seconds=12.4,
    started_at=NOW,
    updated_at=NOW,
    deadline_at=NOW,
    parts=(
        Part(id="node-1", name="node-1m7gfgqra1p8rw3mpx", state="attached", tone=Tone.SUCCESS),
        Part(
            id="node-2",
            name="node-1m7gfgqra3ez35j90a",
            state="booting",
            tone=Tone.ACTIVE,
            detail="making a venv",
        ),
    ),
    detail=Detail(),
)


def drawn(progress: Progress, *, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        percent, eta = progress.percent, progress.eta_seconds
        console.print(progress_views.banner(progress, elapsed=12.4, percent=percent, eta=eta, width=width))
    return captured.get().splitlines()


def test_the_banner_shows_step_label_time_message_bar_eta_and_a_chip_per_node() -> None:
    heading, message, bar, *chips = drawn(PROGRESS, width=100)
    assert heading == "Step 3/5 · Booting and attaching · 0m 12s"
    assert message == "waiting for 2 nodes"
    assert "42.00 % · about 8 s left" in bar
    assert "✔ node-1m7gfgqra1p8rw3mpx attached" in chips[0]
    assert "◐ node-1m7gfgqra3ez35j90a booting making a venv" in "\n".join(chips)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_nothing_of_the_banner_is_wider_than_the_terminal(width: int) -> None:
    crowd = tuple(replace(PROGRESS.parts[0], name=f"node-1m7gfgqra1p8rw3{n:03}") for n in range(24))
    for shown in (PROGRESS, replace(PROGRESS, parts=crowd), replace(PROGRESS, message="long " * 60)):
        assert all(len(line) <= width for line in drawn(shown, width=width))


def test_what_is_missing_is_left_out() -> None:
    bare = replace(PROGRESS, step=None, label=None, percent=None, parts=(), message="")
    assert drawn(bare, width=80) == ["booting · 0m 12s · about 8 s left"]
    bare = replace(bare, eta_seconds=None)
    assert drawn(bare, width=80) == ["booting · 0m 12s"]
    assert drawn(replace(PROGRESS, eta_seconds=None), width=100)[2].endswith("42.00 %")
    assert progress_views.where(replace(bare, phase="arm_create_or_update")) == "arm create or update"
    assert progress_views.where(replace(bare, phase=None)) == "Running"


def test_many_nodes_in_one_state_are_one_chip() -> None:
    grouped = Part(id="booting", name="booting", state="booting", tone=Tone.ACTIVE, count=30)
    assert progress_views.chip(grouped, full=True).plain == "◐ 30 × booting"


def test_a_bar_moves_smoothly_and_never_goes_back() -> None:
    bar = progress_views.Easing()
    shown = [bar.at(target, now / 10) for now, target in enumerate([0, 50, 50, 50, 20, 20, 100] + [100] * 30)]
    assert shown == sorted(shown)
    assert shown[1] < 50 < shown[-1]
    assert shown[-1] == pytest.approx(100, abs=0.5)


def test_between_two_answers_the_bar_moves_by_the_same_formula_as_the_server() -> None:
    motion = Motion(from_percent=40.0, to_percent=60.0, since=NOW, expected_seconds=450.0)
    creating = replace(PROGRESS, percent=40.38, motion=motion, elapsed_seconds=12.4)
    drawn = [progress_views.drawn_percent(creating, passed=float(second)) for second in range(20)]
    assert all(later > earlier for earlier, later in pairwise(drawn) if earlier and later)
    assert drawn[10] == pytest.approx(40.0 + 20.0 * crept(22.4, 450.0))
    ended = replace(creating, status=Status.FAILED)
    for stands in (ended, replace(creating, motion=None)):
        assert progress_views.drawn_percent(stands, passed=20.0) == 40.38
    ahead = replace(creating, percent=55.0)
    assert progress_views.drawn_percent(ahead, passed=1.0) == 55.0, "never back"
    assert progress_views.drawn_percent(replace(creating, percent=None), passed=1.0) is None


def test_plain_lines_say_each_change_once_without_control_codes() -> None:
    out = io.StringIO()
    with progress_views.LineView(out) as view:
        for progress in (PROGRESS, replace(PROGRESS, percent=50.0), replace(PROGRESS, message="")):
            view.show(progress)
    assert out.getvalue().splitlines() == [
        "Step 3/5 · Booting and attaching · 0m 12s · waiting for 2 nodes · about 8 s left",
        "Step 3/5 · Booting and attaching · 0m 12s · about 8 s left",
    ]
    out = io.StringIO()
    progress_views.LineView(out).show(replace(PROGRESS, eta_seconds=None))
    assert out.getvalue() == "Step 3/5 · Booting and attaching · 0m 12s · waiting for 2 nodes\n"


LOST = ConnectionChange(url="http://there:1", patience=300.0)
BACK = dataclasses.replace(LOST, back=True)


def test_a_lost_server_is_told_where_one_looks_and_so_is_its_return(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "100")):
        monkeypatch.setenv(name, value)
    progress_views.report_connection(LOST)
    progress_views.report_connection(BACK)
    assert capsys.readouterr().err.splitlines() == [
        "connection to http://there:1 lost, retrying for up to 5m 00s",
        "connection to http://there:1 is back",
    ]
    out = io.StringIO()
    with progress_views.LiveView(file=out) as view:
        view.show(PROGRESS)
        progress_views.report_connection(LOST)
        view.show(PROGRESS)
        progress_views.report_connection(BACK)
        view.show(replace(PROGRESS, eta_seconds=3.0))
    assert "▲ connection to http://there:1 lost, retrying for up to 5m 00s" in out.getvalue()
    assert "✔ connection to http://there:1 is back" in out.getvalue()
    assert capsys.readouterr().err == ""
    progress_views.report_connection(LOST)
    assert capsys.readouterr().err != ""


def test_programs_are_told_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.OutputSettings, "form", output.Form.JSON)
    progress_views.report_connection(LOST)
    assert json.loads(capsys.readouterr().err)["notice"]["code"] == "connection_lost"
