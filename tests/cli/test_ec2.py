"""`muster iam`, and what `muster doctor` says about EC2, as a user types them before there is a server."""

from collections.abc import Iterator
from typing import Any

import pytest

from fakes.ec2 import FakeEc2
from tests.cli.terminal import Terminal

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "fake", "AWS_SECRET_ACCESS_KEY": "fake"}
CONFIG = """\
[ec2]
region = "eu-west-1"
{more}

[templates.ci.ec2]
image = "{image}"
subnets = ["subnet-0000000000000000a", "subnet-0000000000000000b"]
"""


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeEc2]:
    with FakeEc2(boots=False) as fake:
        yield fake


def write(alone: Terminal, more: str, image: str = "ami-00000000000000001") -> None:
    (alone.directory / "muster.toml").write_text(CONFIG.format(more=more, image=image))


def whole(fake: FakeEc2) -> str:
    return f"endpoint_url = '{fake.url}'\n[ec2.certificates]\neu-west-1 = '''\n{fake.signer.pem}'''"


def checks(alone: Terminal) -> dict[str, Any]:
    said = alone.muster("doctor", "-o", "json", **CREDENTIALS)
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
