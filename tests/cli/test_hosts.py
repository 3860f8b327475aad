"""`muster hosts`, and what `muster doctor` says of hosts, as a user types them, on real sshd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.e2e.ssh_site import config
from tests.integrations.ssh.lab import Lab, needs_sshd

pytestmark = needs_sshd


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    root = tmp_path / "lab"
    root.mkdir()
    lab = Lab(root=root)
    for name in ("web1", "web2"):
        lab.host(name)
    try:
        yield lab
    finally:
        lab.sweep()


@pytest.fixture
def terminal(lab: Lab, tmp_path: Path) -> Terminal:
    (tmp_path / "muster.toml").write_text(config(lab, {"web2": {"labels": ["ssd"], "slots": 2}}))
    return Terminal(tmp_path, {"MUSTER_DATA_DIR": str(tmp_path / "data")})


def test_the_list_says_who_answers_and_who_does_not_and_why(lab: Lab, terminal: Terminal) -> None:
    lab.machines["web1"].kill()
    said = terminal.muster("hosts", "-o", "json")
    away, ready = said.json["items"]
    assert (away["host"], away["state"], away["nodes"]) == ("web1", "away", None)
    assert "kex_exchange_identification" in away["why"]
    assert (ready["host"], ready["state"], ready["nodes"], ready["slots"]) == ("web2", "ready", 0, 2)
    assert ready["labels"] == ["ssd"]
    table = terminal.muster("hosts", "list")
    assert table.code == 0 and "web2  ready" in table.out and "web1  away" in table.out


def test_a_drained_host_is_shown_as_such_until_it_is_enabled(terminal: Terminal) -> None:
    assert terminal.muster("hosts", "drain", "web1").out == "web1: drained, 0 of 5 slots taken\n"
    states = [each["state"] for each in terminal.muster("hosts", "-o", "json").json["items"]]
    assert states == ["drained", "ready"]
    assert terminal.muster("hosts", "enable", "web1", "web2").out.splitlines()[0].startswith("web1: ready")
    assert "drained" not in terminal.muster("hosts").out


def test_draining_a_host_that_is_away_fails_and_says_so(lab: Lab, terminal: Terminal) -> None:
    lab.machines["web1"].kill()
    said = terminal.muster("hosts", "drain", "web1")
    assert said.code == 1 and said.out.startswith("web1: away (kex_exchange_identification")


def test_an_unknown_host_is_told_by_every_command(terminal: Terminal) -> None:
    for words in (["check", "web9"], ["drain", "web9"], ["enable", "web9"], ["trust", "web9"]):
        said = terminal.muster("hosts", *words)
        assert said.code == 2 and "web9" in said.err and "is none of the settings: web1, web2" in said.err


def test_a_key_is_shown_and_trusted_only_if_a_person_says_so(lab: Lab, terminal: Terminal) -> None:
    lab.known_hosts.unlink()
    asked = terminal.muster("hosts", "trust", "web1")
    assert asked.code == 2 and "web1 at 127.0.0.1 shows SHA256:" in asked.err and "--yes" in asked.err
    assert not lab.known_hosts.exists()
    wrong = terminal.muster("hosts", "trust", "web1", "--fingerprint", "SHA256:no")
    assert wrong.code == 1 and "not SHA256:no. Nothing was changed" in wrong.err
    assert not lab.known_hosts.exists()
    trusted = terminal.muster("hosts", "trust", "web1", "--yes")
    assert trusted.code == 0 and "is trusted from now on" in trusted.out
    assert lab.known_hosts.read_text() == f"web1 {lab.machines['web1'].public_key}\n"
    assert "was trusted already" in terminal.muster("hosts", "trust", "web1").out
    states = [each["state"] for each in terminal.muster("hosts", "-o", "json").json["items"]]
    assert states == ["ready", "away"]


def test_a_changed_key_is_told_with_the_earlier_one_and_replaces_it(lab: Lab, terminal: Terminal) -> None:
    before = terminal.muster("hosts", "trust", "web1", "-o", "json").json["fingerprint"]
    machine = lab.machines["web1"]
    machine.kill()
    machine.new_key()
    machine.start()
    asked = terminal.muster("hosts", "trust", "web1")
    assert asked.code == 2 and f"It showed {before} (ED25519) before." in asked.err
    after = terminal.muster("hosts", "trust", "web1", "--yes", "-o", "json").json["fingerprint"]
    assert after != before
    assert [line.split()[0] for line in lab.known_hosts.read_text().splitlines()] == ["web2", "web1"]


def test_a_host_without_sshd_shows_no_key(lab: Lab, terminal: Terminal) -> None:
    lab.machines["web1"].kill()
    said = terminal.muster("hosts", "trust", "web1", "--yes")
    assert said.code == 1 and "cannot see the host key of web1" in said.err


def test_check_and_doctor_say_what_is_wrong_with_each_host(lab: Lab, terminal: Terminal) -> None:
    lab.machines["web2"].kill()
    said = terminal.muster("hosts", "check", "-o", "json", MUSTER_SERVER="http://127.0.0.1:9")
    assert said.code == 1 and not said.json["ok"]
    words = {check["words"] for check in said.json["checks"] if check["subject"] == "host web1"}
    assert any("it can't reach the server at http://127.0.0.1:9" in each for each in words)
    lost = [check for check in said.json["checks"] if check["subject"] == "host web2"]
    assert [check["level"] for check in lost] == ["failed"] and "cannot reach host web2" in lost[0]["words"]
    doctor = terminal.muster("doctor", "-o", "json").json["checks"]
    assert [each["level"] for each in doctor if each["subject"] == "host web2"] == ["failed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[hosts.web1]\nslots = -1\n", "slots must be a whole number from 0 to 1000"),
        ("[hosts.web1]\nslot = 1\n", "there is no slot; did you mean slots?"),
        ("[hosts.Web_1]\nslots = 1\n", "lower-case letters"),
        ("[hosts.web1]\naddress = '-oProxyCommand=touch x'\n", "must be a host name or an IP address"),
        ("[hosts.web1]\naddress = 'a b'\n", "must be a host name or an IP address"),
        ("[hosts.web1]\nuser = 'root; rm'\n", "must be the name of a user"),
        ("[hosts.web1]\npython = 'python3 -c x'\n", "must be a program like python3"),
        ("[hosts.web1]\ndirectory = '$(x)'\n", "must be a path that begins with / or ~"),
        ("[hosts.web1]\nport = 70000\n", "port must be a whole number from 1 to 65535"),
        ("[hosts.web1]\nmembers = []\n", "must be a list of NAME or NAME=ADDRESS"),
        ("[hosts.web1]\nmembers = [3]\n", "members"),
        ("[hosts.web1]\nmembers = ['a']\naddress = 'b'\n", "must be left out of a group"),
        ("[hosts.web1]\nresource_class = 'huge'\n", "must be one of small"),
        ("[hosts.web1]\nlabels = 'ssd'\n", "must be a list of at most 20 labels"),
        ("[hosts.web1]\njump = 'gate'\n", "names no host: add [hosts.gate]"),
        ("[ssh]\nplace = 'random'\n", "must be one of spread, packed"),
        ("[ssh]\nconnect_timeout = 0\n", "must be a number of seconds above 0"),
        ("[ssh]\nhost = 'a'\n", "there is no host"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_rule(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "muster.toml").write_text(text)
    terminal = Terminal(tmp_path, {"MUSTER_DATA_DIR": str(tmp_path / "data")})
    refused = terminal.muster("hosts")
    assert refused.code != 0 and said in refused.err
