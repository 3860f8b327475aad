import os
from pathlib import Path

import pytest

from muster.domain.template import RESOURCE_CLASSES
from muster.slots.limits import CONTROLLERS, Cgroups, empty, find_cgroups, rlimits
from muster.testing.provider_contract import asking, ids, until_gone
from tests.integrations.process.lab import Lab, recorded, unlocked

LARGE = RESOURCE_CLASSES["large"]


def a_machine(tmp_path: Path, *, lines: str, own: str) -> tuple[Path, Path]:
    mounts, groups = tmp_path / "mountinfo", tmp_path / "cgroup"
    mounts.write_text(lines)
    groups.write_text(own)
    return mounts, groups


def test_without_a_cgroup_each_process_is_held_to_the_classes_memory() -> None:
    assert rlimits(LARGE, memory_by_cgroup=False)["RLIMIT_DATA"] == 4096 << 20
    assert "RLIMIT_DATA" not in rlimits(LARGE, memory_by_cgroup=True)
    assert rlimits(LARGE, memory_by_cgroup=True)["RLIMIT_CORE"] == 0


def test_a_machine_without_cgroup_v2_says_so(tmp_path: Path) -> None:
    mounts, own = a_machine(
        tmp_path, lines="1 2 0:3 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw\n", own="1:cpu:/\n"
    )
    found = find_cgroups("muster-x", mounts=mounts, own=own)
    assert found.base is None and found.missing == "this machine has no cgroup v2"


def test_a_cgroup_that_is_not_ours_says_so(tmp_path: Path) -> None:
    lines = f"1 2 0:3 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n"
    mounts, own = a_machine(tmp_path, lines=lines, own="0::/user.slice\n")
    found = find_cgroups("muster-x", mounts=mounts, own=own)
    assert found.base is None and "cannot be divided" in found.missing


def test_a_controller_is_either_in_force_or_named_as_missing() -> None:
    found = find_cgroups("muster-test-controllers")
    if found.base is None:
        assert found.missing
        pytest.skip(f"no cgroup to divide: {found.missing}")
    found.base.rmdir()
    for controller in CONTROLLERS:
        assert (controller in found.controllers) != (controller in found.missing.rpartition("control")[2])


def test_a_nodes_cgroup_carries_the_classes_figures(tmp_path: Path) -> None:
    cgroups = Cgroups(base=tmp_path, controllers=("cpu", "memory", "pids"), missing="")
    group = tmp_path / "l-1.0"
    group.mkdir()
    for name in ("cpu.max", "memory.max", "pids.max"):
        (group / name).touch()
    assert cgroups.make("l-1.0", LARGE) == group
    assert (group / "cpu.max").read_text() == "200000 100000"
    assert (group / "memory.max").read_text() == str(4096 << 20)
    assert (group / "pids.max").read_text() == "4096"
    assert not (group / "memory.swap.max").exists(), "files that the kernel didn't make are not made up"
    assert cgroups.words(LARGE) == ("2 processors", "4096 MiB of memory", "4096 processes")


async def test_a_node_lives_and_dies_in_its_cgroup_where_one_can_be_had(lab: Lab) -> None:
    provider = lab.provider("daemon", cgroups=True)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    (stray,) = await lab.desk.met(1, "stray")
    slot = lab.slot(ids(answer)[0])
    record = slot.record()
    assert record is not None
    if not record.cgroup:
        pytest.skip("no cgroup v2 that we may divide on this machine")
    members = (Path(record.cgroup) / "cgroup.procs").read_text().split()
    assert {str(agent.facts["pid"]), str(stray.facts["pid"])} <= set(members)
    # Even a daemon without a marker, orphaned by a killed keeper, doesn't get away.
    os.kill(await recorded(slot), 9)
    await unlocked(slot)
    await until_gone(provider, ids(answer))
    await stray.died()
    assert empty(Path(record.cgroup)) and empty(Path(record.cgroup).parent), "both were removed"


async def test_the_report_names_what_is_in_force_and_what_is_missing(lab: Lab) -> None:
    report = await lab.provider(capacity=7).report()
    facts = {fact.subject: fact for fact in report.facts}
    assert "7 nodes" in facts["capacity"].words
    assert not facts["isolation"].fine and "isolation is set to none" in report.notice
    assert facts["ending a node"].fine and "keeper" in facts["ending a node"].words
    assert not facts["cgroup"].fine and "nothing limited per node" in facts["cgroup"].words
