"""Who may join as a machine of an executable."""

import asyncio
import json
from pathlib import Path

import pytest

from muster.domain.errors import Forbidden, MusterError, NotYet
from muster.integrations.command.identity import KEY_LEAST, CommandVerifier, read_key
from muster.integrations.command.machines import launch_prefix, origin_of
from tests.integrations.command.place import maker, provider_of, script, settings

NAME = "muster-inst-1--op-7--2-0"
TOKEN = "inst-1/op-7.2"


def verifier(path: Path, *names: str) -> CommandVerifier:
    """Of a place that has machines of these names."""
    machines = [{"id": f"id-{name}", "name": name, "state": "running"} for name in names]
    hello = {"protocols": [1], "name": "place"}
    listed = json.dumps({"machines": machines})
    answers = f"case $1 in hello) echo '{json.dumps(hello)}' ;; *) echo '{listed}' ;; esac"
    config = settings(script(path / "place", f"#!/bin/bash\n{answers}\n"))
    return CommandVerifier(provider_of(config, "inst-1"), maker(config.provider), installation_id="inst-1")


async def test_a_machine_that_shows_its_secret_is_the_machine_of_that_name(tmp_path: Path) -> None:
    identity = await verifier(tmp_path, NAME).verify(f"command-local:{NAME}:{maker().secret(NAME)}")
    assert (identity.provider, identity.machine_id) == ("command-local", f"id-{NAME}")
    assert (identity.installation_id, identity.token) == ("inst-1", TOKEN)


async def test_a_machine_that_the_executable_does_not_show_yet_is_asked_to_come_back(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match="cannot see machine"):
        await verifier(tmp_path).verify(f"command-local:{NAME}:{maker().secret(NAME)}")


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "command-local",
        f"command-local:{NAME}",
        f"command-local:{NAME}:",
        f"command-local:{NAME}:wrong",
        f"command-local:{NAME}:{maker().secret(NAME)}:more",
        f"command-local:{NAME[:-1]}1:{maker().secret(NAME)}",
        f"command-local:{NAME}:{maker('command-other').secret(NAME)}",
        f"command-local:muster-inst-2--op-7--2-0:{maker().secret('muster-inst-2--op-7--2-0')}",
        f"command-local:database:{maker().secret('database')}",
        f"command-local:{NAME}:" + "x" * 10_000,
        f"command-local:{NAME}:\udcff",
    ],
)
async def test_every_other_proof_is_refused(tmp_path: Path, proof: str) -> None:
    with pytest.raises(Forbidden):
        await verifier(tmp_path, NAME).verify(proof)


def test_names_say_where_a_machine_comes_from() -> None:
    for token in (TOKEN, "t1"):
        origin = origin_of(f"{launch_prefix('inst-1', token)}12")
        assert origin is not None
        assert (origin.installation_id, origin.token, origin.ordinal) == ("inst-1", token, 12)
    for other in ("", "muster-", "database", "muster-inst-1-0", "muster-a--b--c--d-0", "muster-a--b-x"):
        assert origin_of(other) is None


async def test_two_servers_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    path = tmp_path / "data" / "command.key"
    keys = await asyncio.gather(*(asyncio.to_thread(read_key, path) for _ in range(8)))
    assert len(set(keys)) == 1 and len(keys[0]) >= KEY_LEAST
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_key_that_was_damaged_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "command.key"
    path.write_text("short")
    with pytest.raises(MusterError, match="restore it"):
        read_key(path)
