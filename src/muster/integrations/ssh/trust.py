"""Host keys: what a host shows, what is known of it, and how a key comes to be trusted."""

import base64
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import MusterError
from muster.integrations.ssh.command import Ssh
from muster.integrations.ssh.inventory import Host
from muster.integrations.ssh.session import explained, run


class NoKey(MusterError):
    """A host showed no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    kind: str
    """ssh-ed25519, say."""
    data: str

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        digest = hashlib.sha256(base64.b64decode(self.data)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    def __str__(self) -> str:
        return f"{self.fingerprint} ({self.kind.removeprefix('ssh-').upper()})"


async def shown(ssh: Ssh, host: Host, *, within: float) -> HostKey:
    """Return the key that a host shows now, without a login. Raises NoKey."""
    with tempfile.TemporaryDirectory(prefix="muster-trust-") as scratch:
        seen = Path(scratch) / "known_hosts"
        argv = ssh.argv(
            host,
            "true",
            options=(
                "StrictHostKeyChecking=accept-new",
                f"UserKnownHostsFile={seen}",
                "GlobalKnownHostsFile=/dev/null",
                "HashKnownHosts=no",
                "PreferredAuthentications=none",
                "ControlMaster=no",
                "ControlPath=none",
            ),
        )
        code, _, words = await run(argv, within=within)
        found = known(seen, host.name)
    if not found:
        raise NoKey(f"cannot see the host key of {host.name}: {explained(host.name, words, code)}")
    return found[0]


def known(path: Path, name: str) -> list[HostKey]:
    """The keys that a file has for a host."""
    return [
        HostKey(kind=words[1], data=words[2])
        for line in _lines(path)
        if len(words := line.split()) >= len(("name", "kind", "data")) and words[0] == name
    ]


def trust(path: Path, name: str, key: HostKey) -> None:
    """Have this key, and no other, count for a host."""
    kept = [line for line in _lines(path) if line.split()[:1] != [name]]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("\n".join([*kept, f"{name} {key.kind} {key.data}"]) + "\n")
    beside.replace(path)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
