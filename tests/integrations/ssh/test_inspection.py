"""What `muster doctor` concludes from what a host says of itself, on both sides of each limit."""

from typing import Any

import pytest

from muster.domain.template import RESOURCE_CLASSES
from muster.integration import Level
from muster.integrations.ssh.inspection import DISK_LEAST, FILES_LEAST, SHARED, SKEW_MOST, judged
from muster.integrations.ssh.inventory import Host
from muster.integrations.ssh.tables import HostArchitecture, HostConfig

NOW = 1_000_000.0
SLOTS = 3
LARGE = RESOURCE_CLASSES["large"]
HOST = Host(
    settings=HostConfig(
        name="web1", slots=SLOTS, resource_class="large", architecture=HostArchitecture.X86_64
    )
)
FINE: dict[str, Any] = {
    "user": "muster",
    "directory": "/home/muster/.muster",
    "writable": True,
    "filesystem": "ext4",
    "free_bytes": DISK_LEAST,
    "free_files": FILES_LEAST,
    "cpu": SLOTS * LARGE.cpu,
    "memory_mib": SLOTS * LARGE.memory_mib,
    "machine": "x86_64",
    "kills_processes": False,
    "scope": "system",
    "time": NOW + SKEW_MOST,
    "others": {},
    "reached": {"https://muster.example.com": ""},
}


def test_a_host_at_every_limit_is_fine() -> None:
    assert list(judged(HOST, FINE, now=NOW)) == []


@pytest.mark.parametrize(
    ("wrong", "level", "words"),
    [
        ({"writable": False}, Level.FAILED, "muster can't write to /home/muster/.muster"),
        ({"filesystem": SHARED[0]}, Level.FAILED, "its locks prove nothing"),
        ({"free_bytes": DISK_LEAST - 1}, Level.WARNING, "1023 MiB are free"),
        ({"free_files": FILES_LEAST - 1}, Level.WARNING, "has room for 9999 more files"),
        (
            {"reached": {"http://a": "refused"}},
            Level.FAILED,
            "it can't reach the server at http://a: refused",
        ),
        ({"cpu": SLOTS * LARGE.cpu - 1}, Level.WARNING, "it has 5 processors, and 3 slots of large need 6"),
        ({"memory_mib": SLOTS * LARGE.memory_mib - 1}, Level.WARNING, "12287 MiB of memory"),
        ({"machine": "aarch64"}, Level.FAILED, "it is aarch64, and the settings say x86_64"),
        ({"kills_processes": True, "scope": ""}, Level.FAILED, "KillUserProcesses=yes"),
        ({"scope": ""}, Level.WARNING, "limits are rlimits of each process"),
        ({"time": NOW + SKEW_MOST + 1}, Level.WARNING, "its clock is 61 s ahead"),
        ({"time": NOW - SKEW_MOST - 1}, Level.WARNING, "its clock is 61 s behind"),
        ({"others": {"inst-2": 2}}, Level.WARNING, "2 nodes of installation inst-2 run there too"),
    ],
)
def test_each_thing_that_is_wrong_is_one_line_with_advice(
    wrong: dict[str, Any], level: Level, words: str
) -> None:
    (check,) = judged(HOST, {**FINE, **wrong}, now=NOW)
    assert check.subject == "host web1" and check.level is level
    assert words in check.words and check.advice


def test_what_logind_kills_is_no_matter_inside_a_scope() -> None:
    assert list(judged(HOST, {**FINE, "kills_processes": True, "scope": "user"}, now=NOW)) == []
