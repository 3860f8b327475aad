"""Hosts that are more than an sshd: a network of their own, a user of their own, a boot id of their own."""

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integrations.ssh.lab import Lab, Machine

BOOT_ID = "/proc/sys/kernel/random/boot_id"
USER, UID = "muster-test", 61_234


def _works() -> bool:
    tools = ("ip", "unshare", "setpriv", "mount")
    if os.getuid() != 0 or not all(map(shutil.which, tools)):
        return False
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False)
    return tried.returncode == 0


needs_namespaces = pytest.mark.skipif(not _works(), reason="only root can make hosts with namespaces here")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network of one host, joined to ours by a cable that can be pulled."""

    name: str
    number: int

    @property
    def address(self) -> str:
        return f"10.213.{self.number // 64}.{self.number % 64 * 4 + 2}"

    @property
    def cable(self) -> str:
        return f"v-{self.name}"[:15]

    def make(self) -> None:
        near = self.address.rpartition(".")[0] + f".{self.number % 64 * 4 + 1}"
        ip("netns", "add", self.name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{near}/30", "dev", self.cable)
        ip("link", "set", self.cable, "up")
        for words in (["addr", "add", f"{self.address}/30", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            ip("-n", self.name, *words)
        ip("-n", self.name, "link", "set", "lo", "up")

    def cut(self) -> None:
        ip("link", "set", self.cable, "down")

    def mend(self) -> None:
        ip("link", "set", self.cable, "up")

    def remove(self) -> None:
        for words in (["link", "del", self.cable], ["netns", "del", self.name]):
            with suppress(subprocess.CalledProcessError):
                ip(*words)

    def host(self, lab: Lab) -> Machine:
        return lab.host("far", wrapper=["ip", "netns", "exec", self.name], address=self.address)


def rebootable(lab: Lab, name: str) -> tuple[Machine, Path]:
    """A host, and the file that has its boot id."""
    boot = lab.root / f"{name}-boot-id"
    boot.write_text("first-boot\n")
    script = f'mount --make-rprivate / && mount --bind {boot} {BOOT_ID} && exec "$@"'
    return lab.host(name, wrapper=["unshare", "--mount", "sh", "-c", script, "sh"]), boot


def of_a_user(lab: Lab, name: str) -> Machine:
    """A host whose sshd is an ordinary user's."""
    accounts = lab.root / "passwd"
    home = lab.root / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    line = f"{USER}:*:{UID}:{UID}::{home}:/bin/sh\n"
    accounts.write_text(Path("/etc/passwd").read_text() + line)
    script = (
        f"mount --make-rprivate / && mount --bind {accounts} /etc/passwd"
        f' && exec setpriv --reuid {UID} --regid {UID} --clear-groups "$@"'
    )
    return lab.host(name, wrapper=["unshare", "--mount", "sh", "-c", script, "sh"], owner=UID)
