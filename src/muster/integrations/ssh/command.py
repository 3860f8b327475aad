"""How `ssh` is called: options that don't depend on the caller's own configuration, and one master per host.

Host keys are strict on every hop. A jump host is a host of the inventory, with the same options: ssh's own
ProxyJump would forget them.
"""

import hashlib
import os
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path

from muster.domain.errors import InvalidRequest
from muster.integrations.ssh.inventory import Host, Inventory

PERSIST = 60
ALIVE_EVERY, ALIVE_TIMES = 5, 3
"""A link without an answer for 15 s is broken."""


class Ssh:
    def __init__(self, inventory: Inventory, data: Path) -> None:
        self._inventory = inventory
        settings = inventory.settings
        self.known_hosts = settings.known_hosts or data / "known_hosts"
        self._config = settings.config
        self._timeout = settings.connect_timeout
        self._data = data
        self._sockets()

    def argv(self, host: Host, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """A command on a host through its master. Without a command: what `options` say."""
        return [*self._ssh(host, *options), "--", host.address, *command]

    def way(self, host: Host) -> list[Host]:
        """The jump hosts that lead to a host, the nearest to the server first."""
        return self._inventory.way(host)

    def control(self, host: Host, act: str, *more: str) -> list[str]:
        """Tell a host's master to do something: exit, forward …"""
        return [*self._ssh(host), "-O", act, *more, "--", host.address]

    def _ssh(self, host: Host, *options: str) -> list[str]:
        mine = host.settings
        argv = ["ssh", *(("-F", str(self._config)) if self._config else ())]
        for each in (
            *options,  # the first value that ssh reads for an option counts
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            f"UserKnownHostsFile={_quoted(self.known_hosts)}",
            f"HostKeyAlias={host.name}",
            "UpdateHostKeys=no",
            "LogLevel=ERROR",
            f"ConnectTimeout={max(1, round(self._timeout))}",
            f"ServerAliveInterval={ALIVE_EVERY}",
            f"ServerAliveCountMax={ALIVE_TIMES}",
            "ControlMaster=auto",
            f"ControlPath={_quoted(self._sockets())}/%C",
            f"ControlPersist={PERSIST}",
            "ForwardAgent=no",
            "ForwardX11=no",
            "ClearAllForwardings=no",
            *((f"IdentityFile={_quoted(mine.key)}", "IdentitiesOnly=yes") if mine.key else ()),
            *((f"User={mine.user}",) if mine.user else ()),
            *((f"Port={mine.port}",) if mine.port else ()),
            *self._proxy(host),
        ):
            argv += ["-o", each]
        return [*argv, "-T"]

    def _proxy(self, host: Host) -> tuple[str, ...]:
        way = self._inventory.way(host)
        if not way:
            return ()
        hop = [each.replace("%", "%%") for each in self._ssh(way[-1])]
        return (f"ProxyCommand={shlex.join([*hop, '-W'])} [%h]:%p {shlex.quote(way[-1].address)}",)

    def _sockets(self) -> Path:
        """Return the directory of the masters' sockets, made if it isn't there.

        It is short, because the path of a socket has at most about a hundred bytes, and this user's alone.
        """
        name = hashlib.sha256(f"{os.getuid()}:{self._data.absolute()}".encode()).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"muster-{name}"
        path.mkdir(mode=0o700, exist_ok=True)
        facts = path.lstat()
        if path.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            rule = "is not this user's alone: remove it, it holds ssh's sockets"
            raise InvalidRequest("ssh", str(path), rule)
        return path

    def leave(self) -> None:
        """Remove the directory of the sockets, unless a master still has one there."""
        with suppress(OSError):
            self._sockets().rmdir()


def _quoted(path: Path) -> str:
    """A path as a value of ssh's configuration, where blanks part values and % begins a name."""
    text = str(path.expanduser().absolute()).replace("%", "%%")
    return f'"{text}"' if " " in text else text
