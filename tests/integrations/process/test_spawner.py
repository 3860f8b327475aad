import os
from pathlib import Path

import pytest

from muster.domain.errors import ProviderError
from muster.testing.provider_contract import asking, ids
from tests.integrations.process.lab import PYTHON, STAND_IN, Lab, ended, recorded


async def test_a_node_starts_in_its_own_session_and_directory_with_nothing_of_the_servers(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TEST_SECRET", "of-the-server")
    answer = await lab.provider().launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    slot = lab.slot(answer.machines[0].id)
    record = slot.record()
    assert record is not None
    facts = agent.facts
    assert facts["session"] == facts["group"] == facts["pid"] != await recorded(slot)
    assert os.getsid(await recorded(slot)) == await recorded(slot)
    assert facts["directory"] == str(slot.work)
    named = {"PATH", "LANG", "TZ", "HOME", "TMPDIR", "MUSTER_WIPE", "MUSTER_SLOT"}
    assert set(facts["environment"]) - {"LC_CTYPE"} == named
    assert str(slot.tmp) in facts["environment"]["MUSTER_WIPE"].splitlines()
    assert facts["environment"]["MUSTER_SLOT"] == record.marker
    assert facts["environment"]["HOME"] == str(slot.work)
    assert facts["stdin"] == "/dev/null"
    assert facts["umask"] == 0o077
    assert facts["core"] == [0, 0]
    assert facts["open_files"][0] <= 65536
    assert facts["data"] == [1024 << 20, 1024 << 20]
    # Standard streams, its connection to the desk, and the directory it is just listing.
    assert len(facts["descriptors"]) == 5


async def test_the_agent_is_told_where_the_server_is_and_how_to_prove_itself(lab: Lab) -> None:
    provider = lab.provider(servers=(lab.desk.url,), dead_man=90.0)
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    machine = answer.machines[0]
    assert agent.facts["argv"] == [
        STAND_IN,
        "plain",
        "run",
        "--server",
        lab.desk.url,
        "--dir",
        str(lab.slot(machine.id).work),
        "--secret-fd",
        "4",
        "--proof-prefix",
        f"process:{machine.id}:",
        "--shared-net",
        "--dead-man",
        "90",
    ]


async def test_nodes_are_told_of_all_servers_and_share_them(lab: Lab) -> None:
    servers = (lab.desk.url, lab.desk.url.replace("127.0.0.1", "localhost"))
    await lab.provider(servers=servers).launch(asking("t1", 8))
    told = [agent.facts["argv"] for agent in await lab.desk.met(8)]
    orders = {(argv[argv.index("--server") + 1], argv[argv.index("--server") + 3]) for argv in told}
    assert orders == {servers, servers[::-1]}


async def test_the_secret_is_in_no_command_line_environment_or_file(lab: Lab) -> None:
    await lab.provider().launch(asking("t1", 2))
    agents = await lab.desk.met(2)
    secrets = [agent.facts["proof"].rpartition(":")[2].encode() for agent in agents]
    assert len(set(secrets)) == 2 and all(len(secret) >= 43 for secret in secrets)
    pids = [agent.facts["pid"] for agent in agents] + [await recorded(slot) for slot in lab.slots()]
    places = [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("cmdline", "environ")]
    places += [path for path in lab.root.rglob("*") if path.is_file()]
    assert len(places) > 12
    for place in places:
        content = place.read_bytes()
        assert not any(secret in content for secret in secrets), place


async def test_everything_on_disk_is_its_owners_alone(lab: Lab) -> None:
    await lab.provider().launch(asking("t1"))
    await lab.desk.met(1)
    modes = {path: path.lstat().st_mode & 0o077 for path in [lab.root, *lab.root.rglob("*")]}
    assert not [path for path, mode in modes.items() if mode]


async def test_an_agent_that_cannot_be_started_leaves_a_machine_that_is_gone_and_says_why(lab: Lab) -> None:
    provider = lab.provider(agent=("/no/such/agent",))
    answer = await provider.launch(asking("t1"))
    (slot,) = lab.slots()
    await ended(await recorded(slot))
    assert list(await provider.find("t1")) == []
    assert "cannot start the agent" in (await provider.console(slot.machine_id, lines=10) or "")
    assert [machine.id for machine in answer.machines] in ([], [slot.machine_id])


async def test_a_keeper_that_cannot_be_started_is_a_partial_launch_that_stays_so(lab: Lab) -> None:
    broken = lab.provider(python="/no/such/python", agent=(PYTHON, STAND_IN, "plain"))
    answer = await broken.launch(asking("t1", 3))
    assert answer.machines == () and answer.reason is not None and "cannot start a process" in answer.message
    again = await lab.provider().launch(asking("t1", 3))
    assert again.machines == () and again.reason is answer.reason
    assert len(lab.slots()) == 1, "slots after the one that failed are not tried"


async def test_a_root_that_cannot_be_written_makes_nothing_and_says_so(lab: Lab) -> None:
    lab.root.parent.mkdir(parents=True)
    lab.root.write_text("in the way")
    with pytest.raises(ProviderError, match="cannot"):
        await lab.provider().launch(asking("t1"))
    lab.root.unlink()


async def test_foreign_directories_are_not_seen(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1"))
    for name in ("lost+found", "l-zz", f"l-{'0' * 24}", ".git"):
        (lab.root / name / "0").mkdir(parents=True)
        (lab.root / name / "0" / "started.json").write_text("{}")
    (lab.root / f"l-{'1' * 24}").mkdir()
    (lab.root / f"l-{'1' * 24}" / "grant.json").write_text("not json")
    (lab.root / f"l-{'2' * 24}").write_text("a file")
    assert [machine.id async for machine in provider.list()] == ids(answer)
    assert not await provider.describe([f"l-{'0' * 24}.0", f"l-{'1' * 24}.0", "lost+found.0"])
