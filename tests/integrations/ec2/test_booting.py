"""What user data gives the agent, and leaves on a machine for later boots, as real processes."""

import base64
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.ec2.machines import Machine, sandbox_works
from muster.integrations.ec2 import user_data

WITHIN = 60
AGENT = "import os, time\nprint('umask %03o' % os.umask(0), flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "i-1", metadata="http://127.0.0.1:1", sandboxed=sandbox_works())
    yield made
    made.remove()


def boots(machine: Machine, until_it_says: bytes = b"switch is set") -> None:
    script = user_data.script(AGENT, servers=["http://127.0.0.1:1"], dead_man=1740.0)
    machine.start(base64.b64encode(user_data.packed(script)).decode())
    until = time.monotonic() + WITHIN
    while until_it_says not in machine.console():
        assert time.monotonic() < until, machine.console()
        select.select([], [], [], 0.05)


def test_a_machine_that_boots_again_powers_itself_off(machine: Machine) -> None:
    boots(machine)
    assert not select.select([machine.power], [], [], 0)[0]
    machine.reboot()
    assert select.select([machine.power], [], [], WITHIN)[0], machine.console()
    assert b"powering off: it was rebooted" in machine.console()


def test_what_a_boot_installs_is_for_other_users_than_root_too(machine: Machine) -> None:
    boots(machine, until_it_says=b"umask 022")
