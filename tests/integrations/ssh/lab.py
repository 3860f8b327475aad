"""Real hosts for tests: each is an sshd on loopback with its own directory, behind a link that can be cut."""

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from muster.integrations.ssh.hosts import Hosts, RemoteHost
from muster.integrations.ssh.inventory import Inventory
from muster.integrations.ssh.provider import SshProvider
from muster.integrations.ssh.tables import HostConfig, Place, SshConfig
from muster.slots.processes import kill_carriers
from muster.slots.tree import Slot, Tree
from muster.testing.provider_contract import INSTALLATION, OTHER_INSTALLATION
from tests.e2e.site import below, until

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None,
    reason="there is no sshd: get these tests with `apt-get install openssh-server`",
)
LOOPBACK = "127.0.0.1"
PYTHON = os.environ.get("MUSTER_AGENT_PYTHON", "/usr/bin/python3")
"""The interpreter of the hosts: any from 3.8 on."""
CONFIG = """
Port {port}
ListenAddress {listen}
HostKey {place}/hostkey
PidFile {place}/sshd.pid
AuthorizedKeysFile {keys}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
MaxSessions 100
"""


class Link:
    """A port that leads to another one, until it is cut: then it is silent, as a broken network is."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._over = False
        self._pairs: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def reset(self) -> None:
        """End every connection at once."""
        pairs, self._pairs = self._pairs, []
        for each in pairs:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._over = True
        self._open.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.reset()

    def _accept(self) -> None:
        while not self._over:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        self._pairs += [near, far]
        back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
        back.start()
        self._pass(near, far)
        back.join()
        near.close()
        far.close()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True, kw_only=True)
class Machine:
    """One host: its sshd, and where its nodes are."""

    name: str
    place: Path
    port: int
    keys: Path
    wrapper: Sequence[str] = ()
    """What its sshd is started with: another user, another namespace."""
    address: str = LOOPBACK
    sshd: subprocess.Popen[bytes] | None = None
    link: Link | None = None

    @property
    def reached_at(self) -> int:
        """The port that ssh connects to."""
        return self.port if self.link is None else self.link.port

    @property
    def directory(self) -> Path:
        return self.place / "nodes"

    @property
    def public_key(self) -> str:
        return " ".join((self.place / "hostkey.pub").read_text().split()[:2])

    def start(self) -> None:
        assert SSHD is not None
        config = self.place / "sshd_config"
        listen = LOOPBACK if self.address == LOOPBACK else "0.0.0.0"  # noqa: S104  # in a network of its own
        config.write_text(CONFIG.format(port=self.port, place=self.place, keys=self.keys, listen=listen))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.place / "sshd.log").open("ab") as log:
            self.sshd = subprocess.Popen(
                [*self.wrapper, SSHD, "-D", "-e", "-f", str(config)], stdout=log, stderr=log
            )
        until(self._listens, f"sshd of {self.name}: {(self.place / 'sshd.log').read_text()}")
        if self.link is None and self.address == LOOPBACK:
            self.link = Link(self.port)

    def _listens(self) -> bool:
        assert self.sshd is not None and self.sshd.poll() is None, (self.place / "sshd.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def kill(self) -> None:
        """SIGKILL to its sshd and to all its sessions."""
        if self.sshd is not None:
            for pid in [*_children(self.sshd.pid), self.sshd.pid]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.sshd.wait()
            self.sshd = None

    def new_key(self) -> None:
        for name in ("hostkey", "hostkey.pub"):
            (self.place / name).unlink(missing_ok=True)
        keygen(self.place / "hostkey")

    def slots(self) -> list[Slot]:
        trees = [Tree(self.directory / each, each) for each in (INSTALLATION, OTHER_INSTALLATION)]
        if self.directory.exists():
            trees += [Tree(path, path.name) for path in self.directory.iterdir() if path.is_dir()]
        return [slot for tree in trees for slot in tree.all_slots()]

    def slot(self, machine_id: str) -> Slot:
        found = Tree(self.directory / INSTALLATION, INSTALLATION).slot(machine_id.partition("@")[0])
        assert found is not None
        return found


def _children(pid: int) -> list[int]:
    """Sessions of an sshd, not what was started in them."""
    return [each for each in below(pid) if each != pid and _program(each) == _program(pid)]


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True, kw_only=True)
class Lab:
    root: Path
    machines: dict[str, Machine] = field(default_factory=dict)
    providers: list[SshProvider] = field(default_factory=list)

    @property
    def key(self) -> Path:
        return self.root / "key"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    def host(
        self, name: str, *, wrapper: Sequence[str] = (), address: str = LOOPBACK, owner: int | None = None
    ) -> Machine:
        """A host that runs and is trusted. `owner`: the user of its files."""
        if not self.key.exists():
            keygen(self.key)
            shutil.copy(self.root / "key.pub", self.root / "authorized_keys")
        place = self.root / name
        place.mkdir()
        machine = Machine(
            name=name,
            place=place,
            port=free_port(),
            keys=self.root / "authorized_keys",
            wrapper=wrapper,
            address=address,
        )
        self.machines[name] = machine
        machine.new_key()
        if owner is not None:
            for path in (place, place / "hostkey"):
                os.chown(path, owner, owner)
        machine.start()
        self.trust(machine)
        return machine

    def trust(self, machine: Machine) -> None:
        kept = self.known_hosts.read_text().splitlines() if self.known_hosts.exists() else []
        lines = [line for line in kept if line.split()[0] != machine.name]
        self.known_hosts.write_text("\n".join([*lines, f"{machine.name} {machine.public_key}"]) + "\n")

    def settings(self, **changes: Any) -> SshConfig:
        mine = SshConfig(
            key=self.key, known_hosts=self.known_hosts, config=Path("/dev/null"), connect_timeout=5.0
        )
        return replace(mine, **changes)

    def inventory(
        self, changes: Mapping[str, Mapping[str, Any]] | None = None, *, place: Place = Place.SPREAD
    ) -> Inventory:
        """`changes`: settings of single hosts that differ."""
        hosts = []
        for name, machine in self.machines.items():
            given = HostConfig(
                name=name,
                address=machine.address,
                port=machine.reached_at,
                slots=5,
                python=PYTHON,
                directory=str(machine.directory),
            )
            hosts.append(replace(given, **(changes or {}).get(name, {})))
        return Inventory(self.settings(place=place), hosts)

    def provider(
        self, inventory: Inventory | None = None, *, installation_id: str = INSTALLATION, url: str = ""
    ) -> SshProvider:
        hosts = Hosts(inventory or self.inventory(), self.root / "data", installation_id=installation_id)

        def servers(_remote: RemoteHost) -> Sequence[str]:
            return (url or "http://127.0.0.1:9",)

        provider = SshProvider(
            hosts, installation_id=installation_id, servers=servers, dead_man=lambda _spec: 600.0
        )
        self.providers.append(provider)
        return provider

    async def close(self) -> None:
        for provider in self.providers:
            await provider.close()
        self.sweep()

    def sweep(self) -> None:
        """Every process that a test left, by pid."""
        for machine in self.machines.values():
            records = [record for slot in machine.slots() if (record := slot.record()) is not None]
            while kill_carriers({record.marker for record in records}):
                pass
            machine.kill()
            if machine.link is not None:
                machine.link.close()
