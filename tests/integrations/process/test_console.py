import os
from pathlib import Path

import pytest

from muster.domain.template import UsageClass
from muster.slots import console
from muster.slots.console import SCRIPT, said
from muster.slots.tree import Grant, Slot


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    grant = Grant(
        token="t1",
        installation_id="inst-1",
        fingerprint="",
        count=1,
        granted=1,
        instance_type="local.small",
        usage_class=UsageClass.ON_DEMAND,
        at=0.0,
    )
    slot = Slot(path=tmp_path / "0", machine_id="l-0.0", ordinal=0, grant=grant)
    slot.work.mkdir(parents=True)
    return slot


def told(slot: Slot, lines: int = 200) -> list[str]:
    return (said(slot, lines) or "").split("\n")


def test_the_agents_words_come_first_and_then_the_scripts(slot: Slot) -> None:
    slot.console.write_text("joined\nstep: fetch\n")
    (slot.work / "log").write_text("fetching\n12 of 40\n")
    assert told(slot) == ["joined", "step: fetch", SCRIPT, "fetching", "12 of 40"]


def test_who_has_little_to_say_leaves_room_for_the_other(slot: Slot) -> None:
    slot.console.write_text("".join(f"agent {n}\n" for n in range(100)))
    (slot.work / "log").write_text("".join(f"script {n}\n" for n in range(100)))
    shown = told(slot, 11)
    assert len(shown) == 11 and shown[0].startswith("agent") and shown[-1] == "script 99" and SCRIPT in shown
    (slot.work / "log").write_text("alone\n")
    assert told(slot, 11) == [*(f"agent {n}" for n in range(91, 100)), SCRIPT, "alone"]


def test_nothing_said_is_no_console(slot: Slot) -> None:
    assert said(slot, 10) is None
    slot.console.write_text("x\n")
    assert said(slot, 0) is None and said(slot, 1) == "x"


def test_a_line_that_was_split_when_the_file_was_turned_over_is_whole_again(slot: Slot) -> None:
    slot.console.with_name("console.1.log").write_text("first\npass")
    slot.console.write_text("word=x\nlast\n")
    assert told(slot) == ["first", "password=x", "last"]


def test_of_a_flood_only_the_end_is_read_and_it_begins_with_a_whole_line(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "MOST", 10)
    slot.console.write_text("aaaaaaaa\nbbbb\ncccc\n")
    assert told(slot) == ["cccc"]


def test_a_node_cannot_show_what_a_link_or_a_pipe_leads_to(slot: Slot, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for nodes\n")
    (slot.work / "log").symlink_to(secret)
    slot.console.write_text("x\n")
    assert told(slot) == ["x"]
    (slot.work / "log").unlink()
    os.mkfifo(slot.work / "log")
    assert told(slot) == ["x"]
    (slot.work / "log").unlink()
    (slot.work / "log").mkdir()
    assert told(slot) == ["x"]
