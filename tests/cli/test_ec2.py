"""`muster iam`, and what `muster doctor` says about EC2, as a user types them, with a server and without."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.ec2 import FakeEc2
from muster.integrations.process.demo_site import Site
from tests.cli.terminal import Terminal

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "fake", "AWS_SECRET_ACCESS_KEY": "fake"}
EC2 = """\
[ec2]
region = "eu-west-1"
{more}

"""
TEMPLATE = """\
[templates.ci.ec2]
image = "{image}"
subnets = ["subnet-0000000000000000a", "subnet-0000000000000000b"]
"""
CONFIG = EC2 + TEMPLATE
DEAD = "ami-0000000000000dead"


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeEc2]:
    with FakeEc2(boots=False) as fake:
        yield fake


@pytest.fixture(scope="module")
def site(fake: FakeEc2) -> Iterator[Site]:
    """A server that has EC2, and a template of it in its store alone."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        started = Site.started(EC2.format(more=whole(fake)))
    try:
        yield started
    finally:
        leaked = started.end()
    assert leaked == 0


def write(
    alone: Terminal, more: str, image: str = "ami-00000000000000001", file: str = "muster.toml"
) -> None:
    (alone.directory / file).write_text(CONFIG.format(more=more, image=image))


def whole(fake: FakeEc2) -> str:
    return f"endpoint_url = '{fake.url}'\n[ec2.certificates]\neu-west-1 = '''\n{fake.signer.pem}'''"


def checks(alone: Terminal, *words: str, **more: str) -> dict[str, Any]:
    said = alone.muster("doctor", "-o", "json", *words, **CREDENTIALS, **more)
    return {each["subject"]: each for each in said.json["checks"]}


def test_a_policy_can_be_pasted_before_there_is_a_server(alone: Terminal, fake: FakeEc2) -> None:
    write(alone, whole(fake))
    said = alone.muster("iam")
    assert (said.code, said.err) == (0, "")
    assert said.json["Version"] == "2012-10-17"
    assert '"aws:ResourceTag/muster:installation": "*"' in said.out and ":eu-west-1:" in said.out
    assert '"inst-7"' in alone.muster("iam", "--installation", "inst-7").out
    assert alone.muster("iam", "nodes").json["Statement"][0]["Effect"] == "Deny"


def test_only_servers_and_nodes_have_policies(alone: Terminal) -> None:
    said = alone.muster("iam", "everybody")
    assert said.code == 2 and "server" in said.err and "nodes" in said.err


def test_doctor_asks_ec2_about_every_template(alone: Terminal, fake: FakeEc2) -> None:
    write(alone, whole(fake))
    found = checks(alone)
    for subject in ("public_url", "ec2 credentials", "template ci", "ec2 quota on-demand"):
        assert found[subject]["level"] == "ok", found[subject]
    write(alone, whole(fake), image="ami-0000000000000dead")
    found = checks(alone)
    assert found["template ci"]["level"] == "failed"
    assert "ami-0000000000000dead" in found["template ci"]["words"]


def test_doctor_says_what_machines_elsewhere_can_not_reach(alone: Terminal, fake: FakeEc2) -> None:
    certificate = whole(fake).partition("\n")[2]
    write(alone, certificate)
    assert "public_url is not set" in checks(alone)["public_url"]["words"]
    write(alone, f"{certificate}\n[server]\npublic_url = 'http://localhost:8420'")
    assert "can't reach it" in checks(alone)["public_url"]["words"]


def test_doctor_names_the_setting_that_is_missing(alone: Terminal, fake: FakeEc2) -> None:
    write(alone, f"endpoint_url = '{fake.url}'")
    assert "set ec2.certificates.eu-west-1" in checks(alone)["ec2"]["words"]
    text = CONFIG.format(more="", image="ami-00000000000000001").replace('region = "eu-west-1"', "")
    (alone.directory / "muster.toml").write_text(text)
    assert "ec2.region is not set" in checks(alone)["ec2"]["words"]


def test_doctor_looks_at_the_settings_that_are_named(alone: Terminal, fake: FakeEc2) -> None:
    write(alone, whole(fake), file="server.toml")
    found = checks(alone, "-f", "server.toml")
    assert found["settings"]["words"] == "server.toml" and found["template ci"]["level"] == "ok"
    found = checks(alone, "-f", "server.toml", MUSTER_SERVER="http://127.0.0.1:1")
    assert found["template ci"]["level"] == "ok" and "data" not in found, "it is another machine's disk"


def test_doctor_says_that_it_found_no_settings(alone: Terminal, fake: FakeEc2) -> None:
    write(alone, whole(fake), file="server.toml")
    missing = checks(alone)["settings"]
    assert missing["level"] == "warning"
    assert "no muster.toml" in missing["words"] and "-f" in missing["advice"]
    elsewhere = checks(alone, MUSTER_SERVER="http://127.0.0.1:1")["settings"]
    assert "was not checked" in elsewhere["words"]


def test_settings_that_were_named_must_be_there(alone: Terminal) -> None:
    assert checks(alone, "-f", "typo.toml")["settings"]["level"] == "failed"
    said = alone.muster("iam", "-f", "typo.toml")
    assert said.code == 2 and "typo.toml" in said.err


def test_doctor_finds_the_server_of_the_settings_that_are_named(site: Site, alone: Terminal) -> None:
    (alone.directory / "server.toml").write_text(f"[server]\ndata_dir = '{site.directory}'\n")
    said = alone.muster("doctor", "-f", "server.toml", "-o", "json", MUSTER_DATA_DIR="")
    assert said.code == 0, said.out


def test_doctor_looks_at_the_settings_of_the_server_that_runs(site: Site, alone: Terminal) -> None:
    """Not at a file of the same name that lies where it is called."""
    here = {"MUSTER_DATA_DIR": str(site.directory)}
    assert str(site.directory / "muster.toml") in checks(alone, **here)["settings"]["words"]
    announced = site.directory / "server.json"
    before = announced.read_text()
    used, other = alone.directory / "used.toml", alone.directory / "muster.toml"
    used.write_text("[server]\nhost = 7\n")
    announced.write_text(json.dumps({**json.loads(before), "settings": str(used)}))
    try:
        other.write_text("[server]\n")
        assert checks(alone, **here)["settings"]["level"] == "failed"
        used.write_text("[server]\n")
        found = checks(alone, **here)["settings"]
        assert found["level"] == "warning"
        assert f"checked {used}" in found["words"] and "muster.toml is another file" in found["words"]
        found = checks(alone, "-f", "muster.toml", **here)["settings"]
        assert found["level"] == "warning" and f"use -f {used}" in found["advice"]
        assert checks(alone, "-f", "used.toml", **here)["settings"]["level"] == "ok"
    finally:
        announced.write_text(before)


def test_doctor_looks_at_templates_that_only_the_store_has(
    site: Site, alone: Terminal, fake: FakeEc2
) -> None:
    here = {"MUSTER_DATA_DIR": str(site.directory)}
    (alone.directory / "applied.toml").write_text(TEMPLATE.format(image=DEAD))
    assert alone.muster("apply", "-f", "applied.toml", **here).code == 0
    (alone.directory / "server.toml").write_text(EC2.format(more=whole(fake)))
    found = checks(alone, "-f", "server.toml", **here)
    assert found["template ci"]["level"] == "failed" and DEAD in found["template ci"]["words"]
    found = checks(alone, **here)
    assert "with which the server was started" in found["settings"]["words"]
    assert found["template ci"]["level"] == "failed", "the server's own settings name EC2"
    write(alone, whole(fake), file="server.toml")
    found = checks(alone, "-f", "server.toml", **here)
    assert found["template ci"]["level"] == "ok", "the file's own is what the next start applies"
