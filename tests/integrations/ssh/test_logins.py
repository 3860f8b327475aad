"""Ways in that don't work, and what Muster says of each: the thing, the fact, the next act."""

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from muster.domain.errors import InvalidRequest, Throttled
from muster.integrations.ssh import bundle
from muster.integrations.ssh.hosts import Away
from muster.integrations.ssh.inventory import Inventory
from muster.integrations.ssh.provider import SshProvider
from muster.integrations.ssh.tables import HostConfig, SshConfig
from muster.testing.provider_contract import asking, ids
from tests.e2e.site import pids, words_of
from tests.integrations.ssh.lab import Lab, keygen, needs_sshd
from tests.integrations.ssh.test_contract import TEMPLATE

pytestmark = needs_sshd


async def refused(provider: SshProvider, host: str = "web1") -> str:
    with pytest.raises(Away) as caught:
        await provider.hosts.remotes[host].ask("facts")
    return str(caught.value)


async def test_an_unknown_host_key_is_refused_and_the_command_that_accepts_it_is_named(lab: Lab) -> None:
    lab.host("web1")
    lab.known_hosts.unlink()
    said = await refused(lab.provider())
    assert said == (
        "cannot reach host web1: the host key of web1 is not known: "
        "compare and accept it with `muster hosts trust web1`"
    )
    assert not lab.known_hosts.exists()


async def test_a_changed_host_key_is_refused_and_says_so(lab: Lab) -> None:
    machine = lab.host("web1")
    provider = lab.provider()
    made = ids(await provider.launch(asking("t1", 1, template=TEMPLATE)))
    machine.kill()
    machine.new_key()
    machine.start()
    said = await refused(provider)
    assert "the host key of web1 has changed" in said and "`muster hosts trust web1`" in said
    lab.trust(machine)
    assert list(await lab.provider().describe(made)) == made


async def test_a_wrong_key_is_told_with_the_settings_to_look_at(lab: Lab) -> None:
    lab.host("web1")
    keygen(lab.root / "other")
    said = await refused(lab.provider(lab.inventory({"web1": {"key": lab.root / "other"}})))
    assert "it refused the key" in said and "Permission denied" in said and "[hosts.web1]" in said


async def test_a_host_without_python_is_told_what_to_set(lab: Lab) -> None:
    lab.host("web1")
    said = await refused(lab.provider(lab.inventory({"web1": {"python": "python2000"}})))
    assert "it can't start Python" in said and "set python of [hosts.web1]" in said


async def test_a_python_that_is_too_old_is_told_with_its_version(lab: Lab) -> None:
    lab.host("web1")
    old = lab.root / "old-python"
    old.write_text("#!/bin/sh\necho 'muster: needs Python 3.8 or later, and this is 3.6.9' >&2; exit 1\n")
    old.chmod(0o755)
    said = await refused(lab.provider(lab.inventory({"web1": {"python": str(old)}})))
    assert said.endswith("needs Python 3.8 or later, and this is 3.6.9: set python under [hosts.web1]")


def test_a_python_that_is_too_old_says_so_before_it_reads_the_program() -> None:
    earlier = bundle.COMMAND.replace("(3,8)", "(99,0)")
    python = shutil.which("python3") or "python3"
    done = subprocess.run([python, "-c", earlier], input="1\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and bundle.LEAST_PYTHON in done.stderr


async def test_what_a_login_shell_says_first_is_passed_over(lab: Lab) -> None:
    lab.host("web1")
    chatty = lab.root / "chatty"
    chatty.write_text('#!/bin/sh\necho Welcome to web1; echo "{}"; echo "[1]"; exec /usr/bin/python3 "$@"\n')
    chatty.chmod(0o755)
    provider = lab.provider(lab.inventory({"web1": {"python": str(chatty)}}))
    assert (await provider.hosts.remotes["web1"].ask("facts"))["nodes"] == 0


async def test_a_host_that_writes_garbage_makes_the_call_uncertain_and_not_wrong(lab: Lab) -> None:
    lab.host("web1")
    liar = lab.root / "liar"
    greeting = '{"n": 0, "answer": {"boot_id": "b"}}'
    liar.write_text(
        f"#!/bin/sh\nread -r a; read -r b; echo '{greeting}'; read -r c; echo garbage; exec cat\n"
    )
    liar.chmod(0o755)
    provider = lab.provider(lab.inventory({"web1": {"python": str(liar)}}))
    with pytest.raises(Throttled, match="the host wrote what is no answer"):
        await provider.launch(asking("t1", 1, template=TEMPLATE))


async def test_a_shell_that_talks_without_an_end_is_given_up(lab: Lab) -> None:
    lab.host("web1")
    endless = lab.root / "endless"
    endless.write_text("#!/bin/sh\nexec yes\n")
    endless.chmod(0o755)
    said = await refused(lab.provider(lab.inventory({"web1": {"python": str(endless)}})))
    assert said.startswith("cannot reach host web1: ")


async def test_a_host_behind_another_one_is_reached_and_both_keys_are_strict(lab: Lab) -> None:
    gate = lab.host("gate")
    lab.host("inner")
    inventory = lab.inventory({"gate": {"slots": 0}, "inner": {"jump": "gate"}})
    provider = lab.provider(inventory)
    made = ids(await provider.launch(asking("t1", 2, template=TEMPLATE)))
    assert {each.partition("@")[2] for each in made} == {"inner"}
    await provider.close()
    gate.kill()
    gate.new_key()
    gate.start()
    said = await refused(
        lab.provider(lab.inventory({"gate": {"slots": 0}, "inner": {"jump": "gate"}})), "inner"
    )
    assert "the host key of gate has changed" in said and "`muster hosts trust gate`" in said
    lab.known_hosts.write_text(f"inner {lab.machines['inner'].public_key}\n")
    said = await refused(lab.provider(inventory), "inner")
    assert "the host key of gate is not known" in said and "`muster hosts trust gate`" in said


async def test_a_secret_stands_in_no_command_line_no_environment_and_no_file(lab: Lab) -> None:
    machine = lab.host("web1")
    provider = lab.provider()
    (made,) = ids(await provider.launch(asking("t1", 1, template=TEMPLATE)))
    found = await provider.secret_hash(made)
    assert found is not None
    words = await asyncio.to_thread(words_around, machine.directory)
    assert found[1][:43].encode() in words, "the hash is found, so the secret would be"
    assert not [word for word in words if hashlib.sha256(word).hexdigest() == found[1]]


def words_around(directory: Path) -> set[bytes]:
    """Whatever has the length of a secret, in the files of a host and in what all processes show."""
    texts = [words_of(pid) for pid in pids()]
    for base, _, names in os.walk(directory):  # which lets files come and go meanwhile
        with suppress(FileNotFoundError):
            texts += [path.read_bytes() for name in names if (path := Path(base, name)).is_file()]
    long = [text[start : start + 43] for text in texts for start in range(len(text) - 42)]
    return {each for each in long if re.fullmatch(rb"[A-Za-z0-9_-]{43}", each)}


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([HostConfig(name="a"), HostConfig(name="b", members=("a",))], "is named twice"),
        ([HostConfig(name="a", jump="b")], "names no host: add [hosts.b]"),
        ([HostConfig(name="a", jump="a")], "leads in a circle"),
        ([HostConfig(name="a", jump="b"), HostConfig(name="b", jump="a")], "leads in a circle"),
    ],
)
def test_an_inventory_that_cannot_be_is_refused(hosts: list[HostConfig], said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Inventory(SshConfig(), hosts)
    assert said in str(caught.value)


def test_members_of_a_group_have_its_settings_and_addresses_of_their_own() -> None:
    group = HostConfig(name="rack", members=("rack-1=10.0.0.1", "rack-2"), slots=7, labels=("ssd",))
    inventory = Inventory(SshConfig(user="muster"), [group])
    one, two = inventory.hosts.values()
    assert (one.name, one.address, two.name, two.address) == ("rack-1", "10.0.0.1", "rack-2", "rack-2")
    assert {(each.slots, each.settings.user, each.group) for each in (one, two)} == {(7, "muster", "rack")}


async def test_nothing_of_a_closed_provider_is_left_on_the_servers_disk(lab: Lab) -> None:
    lab.host("web1")
    provider = lab.provider()
    sockets = next(
        word for word in provider.hosts.ssh.argv(provider.hosts.remotes["web1"].host) if "%C" in word
    )
    place = Path(sockets.partition("=")[2]).parent
    await provider.launch(asking("t1", 1, template=TEMPLATE))
    assert await asyncio.to_thread(lambda: len(list(place.iterdir()))) == 1
    await provider.close()
    assert not await asyncio.to_thread(place.exists)
