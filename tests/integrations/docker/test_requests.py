"""What settings and templates may say, and what becomes of it. Needs no engine."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.config import Config
from muster.config.sources import load
from muster.domain.errors import InvalidRequest
from muster.integrations.docker import answers, body, images, inspection, names
from muster.integrations.docker.launcher import Room, placed
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.provider import joined
from muster.integrations.docker.spec import DockerSpec, image_of
from muster.integrations.docker.tables import EngineConfig
from muster.ports.provider import MachineState
from muster.testing.provider_contract import asking

MACHINE = MachineName(engine="big", launch="0" * 24, ordinal=3)


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "muster.toml"
    path.write_text(text)
    return load(path, environment={})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('host = "tcp://10.0.0.1:2375"', "plain TCP lets anybody be root there"),
        ('host = "unix://relative.sock"', "must be unix:///path"),
        ('host = "https://host:2376/path"', "must be unix:///path"),
        ("capacity = -1", "whole number"),
        ('ca = "/x"', "must begin with https://"),
        ('host = "https://h:1"\ncert = "/x"', "together with key"),
        ('extra_hosts = ["nonsense"]', 'list of "name:address"'),
        ("server_url = []", "must be a URL, or a list of them"),
        ("keep = 1e12", "seconds"),
        ('socket = "/x"', "there is no socket"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=r"line [123]") as caught:
        read(tmp_path, f"[docker.big]\n{text}\n")
    assert words in str(caught.value)


def test_an_engine_is_named_plainly(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="lower-case"):
        read(tmp_path, '[docker."Big one"]\ncapacity = 1\n')


def test_files_of_engines_are_hidden_from_jobs(tmp_path: Path) -> None:
    config = read(
        tmp_path, '[docker.big]\nhost = "https://h:2376"\ncert = "/c"\nkey = "/k"\nregistry_auth = "/r"\n'
    )
    assert {Path("/c"), Path("/k"), Path("/r")} <= set(config.private)


@pytest.mark.parametrize(
    "given",
    [
        {"image": ""},
        {"image": "UPPER/case"},
        {"image": "x" * 600},
        {"image": "../../etc"},
        {"image": 7},
        {"image": "a", "user": "root"},
        {"image": "a", "capabilities": ("net_admin",)},
        {"image": "a", "capabilities": ("NET_ADMIN", "NET_ADMIN")},
        {"image": "a", "pids": 1},
        {"image": "a", "tmp_mib": 0},
        {"image": "a", "network": "a b"},
        {"image": "a", "python": "python3; rm"},
        {"image": "a", "runtime": "../x"},
        {"image": "a", "read_only": "yes"},
        {"image": "a", "pull": "sometimes"},
    ],
)
def test_a_template_that_cannot_work_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        DockerSpec(**given)


@pytest.mark.parametrize(
    ("text", "whole", "registry"),
    [
        ("debian", "debian:latest", "docker.io"),
        ("ci/base:7", "ci/base:7", "docker.io"),
        (
            "registry.example.com:5000/a/b:1.2_3",
            "registry.example.com:5000/a/b:1.2_3",
            "registry.example.com:5000",
        ),
        ("localhost/a", "localhost/a:latest", "localhost"),
        (f"a/b:1@sha256:{'0' * 64}", f"a/b@sha256:{'0' * 64}", "docker.io"),
    ],
)
def test_an_image_always_has_a_tag_or_a_digest(text: str, whole: str, registry: str) -> None:
    image = image_of(text)
    assert image is not None and (image.whole, image.registry) == (whole, registry)


def made(**spec: Any) -> dict[str, Any]:
    config = EngineConfig(name="big")
    common = body.body(asking("t1"), DockerSpec(image="a", **spec), config, servers=["http://s"], dead_man=9)
    return body.for_machine(json.dumps(common), MACHINE, kind="docker.small", usage="spot", secret="s3cret")


def test_a_container_is_confined_unless_its_template_says_otherwise() -> None:
    host = made()["HostConfig"]
    assert host["CapDrop"] == ["ALL"] and host["CapAdd"] == []
    assert host["ReadonlyRootfs"] and host["SecurityOpt"] == ["no-new-privileges=true"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (10**9, 1 << 30, 1 << 30)
    assert host["RestartPolicy"] == {"Name": "no"} and "NetworkMode" not in host
    loose = made(read_only=False, capabilities=("CHOWN",), network="host", runtime="runsc", pids=99)
    assert not loose["HostConfig"]["ReadonlyRootfs"] and loose["HostConfig"]["CapAdd"] == ["CHOWN"]
    assert loose["HostConfig"]["Runtime"] == "runsc" and loose["HostConfig"]["PidsLimit"] == 99
    assert "--shared-net" in loose["Cmd"]


def test_the_secret_is_in_the_archive_alone() -> None:
    assert "s3cret" not in json.dumps(made())
    with tarfile.open(fileobj=io.BytesIO(body.archive("agent", "s3cret"))) as tar:
        file = tar.extractfile("node/secret")
        assert file is not None and file.read() == b"s3cret"


@pytest.mark.parametrize(
    "text", ["", "../../etc", "big", "big.x.0", f"big.{'0' * 24}.00", f"BIG.{'0' * 24}.0", None, 7]
)
def test_what_is_no_machine_id_is_none(text: object) -> None:
    assert names.parsed(text) is None


def test_a_machine_id_tells_its_parts() -> None:
    assert names.parsed(MACHINE.id) == MACHINE


def test_machines_go_where_the_largest_share_is_free() -> None:
    rooms = {"small": Room(capacity=2, taken=0), "large": Room(capacity=8, taken=4)}
    chosen = placed(6, rooms)
    assert (chosen.count("small"), chosen.count("large")) == (2, 4)
    assert placed(9, rooms) == chosen
    assert placed(1, {"off": Room(capacity=0, taken=3)}) == () == placed(1, {})


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("created", MachineState.PENDING),
        ("paused", MachineState.RUNNING),
        ("stopping", MachineState.STOPPING),
        ("dead", MachineState.GONE),
        ("something new", MachineState.RUNNING),
        (None, MachineState.RUNNING),
        (["exited"], MachineState.RUNNING),
    ],
)
def test_an_engines_words_in_ours(word: object, state: MachineState) -> None:
    assert answers.state_of(word) is state


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"ExitCode": 0, "OOMKilled": True}, "ran out of its memory of 64 MiB"),
        ({"ExitCode": 137}, "want of memory"),
        ({"ExitCode": 127}, "docker.python"),
        ({"ExitCode": 3}, "exit code 3"),
        ({"ExitCode": 1, "Error": "no device"}, "no device"),
        ({}, "not known"),
        ("garbage", "not known"),
    ],
)
def test_why_a_container_ended(state: object, words: str) -> None:
    assert words in answers.why({"State": state}, memory_mib=64)


def test_frames_are_joined_and_what_is_none_is_taken_as_it_is() -> None:
    frame = b"\x01\0\0\0\0\0\0\x03abc"
    assert joined(frame + b"\x02\0\0\0\0\0\0\x01d") == b"abcd"
    assert joined(frame + b"\x01\0\0\0\0\0\0\x09cut") == b"abccut"
    assert joined(b"plain text of a terminal") == b"plain text of a terminal"
    assert joined(b"") == b"" == joined(b"\x01\0\0")


def test_progress_is_told_in_steps_of_ten_percent() -> None:
    assert images.words({}) == ""
    assert images.words({"a": (0, 0)}) == ""
    assert images.words({"a": (19_000_000, 50_000_000), "b": (50, 50)}) == "30 % of 50 MB"


def test_credentials_come_from_a_file_for_their_registry_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"auths": {"r.example.com": {"auth": "dXNlcjpwYXNz"}}}')
    assert images.registry_auth(path, "r.example.com") and not images.registry_auth(path, "docker.io")
    path.write_text("[]")
    with pytest.raises(Exception, match="can't be read"):
        images.registry_auth(path, "r.example.com")


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"MemoryLimit": True, "Rootless": True, "CgroupVersion": "1"}, "ignores all limits"),
        ({"MemoryLimit": False, "PidsLimit": False}, "can't limit memory, processes"),
        ({"MemoryLimit": True, "Rootless": True, "CgroupVersion": "2"}, None),
        ({"MemoryLimit": True, "CgroupVersion": "1"}, None),
    ],
)
def test_doctor_tells_which_limits_are_not_in_force(info: dict[str, Any], words: str | None) -> None:
    found = inspection._limits("docker.big", info)
    assert found is None if words is None else found is not None and words in found.words


def test_a_loopback_address_reaches_only_the_host_network() -> None:
    config = EngineConfig(name="big")
    assert "server_url" in (config.unreachable(["http://127.0.0.1:8420"]) or "")
    assert replace(config, network="host").unreachable(["http://127.0.0.1:8420"]) is None
    assert replace(config, server_url=("https://m.example.com",)).unreachable(["http://[::1]:1"]) is None
    assert replace(config, network="host", host="https://h:1").unreachable(["http://localhost"]) is not None
