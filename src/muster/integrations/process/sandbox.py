"""bubblewrap: how nodes and their jobs are wrapped in it.

Three layers, each inside the one before:

    stage   only where the server is root: shows the node's files to an unprivileged user, and becomes it
    node    around the agent: own processes, the system read-only, its work directory at /node
    job     around each command and the boot script: its workspace and a /tmp are all it may write to

No layer below the stage has a capability or the user id 0, inside or outside of its user namespace. A job
can't make another user namespace, which would give it all capabilities over its own mounts and networks. A
job sees neither the agent nor its files, nor other commands' processes. It sees what the boot script left in
/node/home, read-only or as an overlay that goes with the workspace. Its mounts go with its last process. No
layer sees the data directory, HOME, other nodes' slots or the rest of /etc. The network is shared: the agent
must reach the server.

Without user namespaces, a root server has two layers: bubblewrap as root around the agent, and again around
each job. `sandbox_entry.py` makes the agent act as the node's own user, and each job become it for good.
Whether any of this works here, `probe.py` finds out.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

NODE = Path("/node")
HOME = NODE / "home"
WORK = NODE / "work"
"""Where the workspaces are; the agent empties it with each assignment."""
DROP_ROOT = Path(__file__).with_name("drop_root.py")
SANDBOX_ENTRY = Path(__file__).with_name("sandbox_entry.py")
STAGED = Path("/tmp")  # noqa: S108  # where drop_root.py shows things; it knows the same place
USER = "1000"
"""Who a node's processes are in their own user namespace."""
_USERS = {"passwd": "node:x:{0}:{0}:node:/tmp:/bin/sh", "group": "node:x:{0}:"}
"""Programs ask who they are. /tmp is a job's own, and what they leave there goes with it."""
_BECOMING = ("SETUID", "SETGID", "SETPCAP", "DAC_OVERRIDE")
"""The capabilities with which a root that wraps a job enters its workspace and becomes the node's user."""
_WRAPPING = (*_BECOMING, "SYS_ADMIN", "KILL")
"""Those with which the agent of a node without user namespaces starts the sandbox of a job."""
SYSTEM = ("/usr", "/opt", "/nix/store")
LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Only what programs need to run, resolve names and check certificates: /etc holds secrets too.
_ETC = """
    alternatives bash.bashrc ca-certificates ca-certificates.conf crypto-policies debian_version
    environment fonts gai.conf gitconfig group host.conf hosts inputrc ld.so.cache ld.so.conf
    ld.so.conf.d locale.alias localtime login.defs mime.types nsswitch.conf os-release passwd pki
    profile profile.d protocols resolv.conf services shells ssl terminfo timezone
"""
_PROC_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/sysrq-trigger", "/proc/timer_list")
NO_NESTING = "--disable-userns"
_UID_RANGE = 100_000_000
UID_LEAST = 10_000
"""Ids that neither users, nor services, nor containers are usually given."""


class Isolation(StrEnum):
    SANDBOX = "sandbox"
    NONE = "none"
    AUTO = "auto"
    """The sandbox if it works, else none, and then it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    bwrap: str
    python: str
    shown: tuple[Path, ...]
    """Besides the system: Python's prefixes and the agent's files."""
    hidden: tuple[Path, ...]
    last_uid: int | None
    """The last of the user ids that nodes are given; None where the server isn't root: they have its own."""
    user_namespaces: bool = True
    nests: bool = False
    """Whether a job can make user namespaces: bubblewrap before 0.8 doesn't keep it from that."""
    no_overlay: str = ""
    """Why a job can't have an overlay on MUSTER_HOME; empty if it can."""

    def uid(self, machine_id: str) -> int | None:
        """Return the node's own user id outside of its namespaces."""
        if self.last_uid is None:
            return None
        most = min(_UID_RANGE, self.last_uid - UID_LEAST)
        return self.last_uid - int(hashlib.sha256(machine_id.encode()).hexdigest(), 16) % most

    def prepare(self, place: Path, machine_id: str) -> None:
        """Make what `wrap` mounts: directories of the node's own user, and its list of users."""
        for name in ("stage", "work", "tmp"):
            (place / name).mkdir(mode=0o700, exist_ok=True)
        uid = self.uid(machine_id)
        if uid is not None:
            for name in ("work", "tmp"):
                os.chown(place / name, uid, uid)
        inside = USER if self.user_namespaces else str(uid)
        for name, own in _USERS.items():
            system = Path("/etc", name)
            lines = system.read_text(errors="replace").splitlines() if system.exists() else []
            others = [line for line in lines if line.split(":")[2:3] != [inside]]
            (place / name).write_text("\n".join([own.format(inside), *others, ""]))
            (place / name).chmod(0o644)

    def wrap(self, argv: Sequence[str], *, place: Path, machine_id: str) -> list[str]:
        """Return the command line of the node's agent, in a prepared place."""
        uid = self.uid(machine_id)
        named = {name: place / name for name in ("work", "tmp", *_USERS)}
        named |= {f"shown-{number}": path for number, path in enumerate(self.shown)}
        stage: list[str] = []
        if not self.user_namespaces:
            return [*self._node(named), "--", *self._entry("agent", str(uid)), *argv]
        if uid is not None:
            given = json.dumps({name: str(path) for name, path in named.items()})
            stage = [self.python, "-I", "-S", str(DROP_ROOT), str(uid), str(place / "stage"), given]
            named = {name: STAGED / name for name in named}
        return [*stage, *self._node(named), "--", *argv]

    def _node(self, named: Mapping[str, Path]) -> list[str]:
        command = [*self._fresh(_WRAPPING), "--die-with-parent", *self._system(), "--dir", "/etc"]
        for name in _ETC.split():
            command += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for name in _USERS:
            command += ["--ro-bind", str(named[name]), f"/etc/{name}"]
        command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var"]
        command += ["--bind", str(named["tmp"]), "/tmp", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
        command += self._showing({path: named[f"shown-{number}"] for number, path in enumerate(self.shown)})
        return [*command, "--bind", str(named["work"]), str(NODE), "--chdir", str(NODE)]

    def job(self, machine_id: str, *, overlay: bool = False) -> list[str]:
        """Return the start of a job's command line inside of the node.

        The agent replaces the empty word by what the job may write to. Every mount here is of a directory.
        `useradd` and upgrades replace files while nodes run. Such a file can't be mounted again by itself.
        Its directory can.
        """
        uid = None if self.user_namespaces else self.uid(machine_id)
        given = {"uid": uid, "home": str(HOME) if overlay else None, "beside": str(WORK)}
        needed = overlay or uid is not None
        command = self._entry("job", json.dumps(given)) if needed else []
        command += self._fresh(_BECOMING)
        command += [NO_NESTING] if self.user_namespaces and not self.nests else []
        command += [*self._system(), "--ro-bind", "/etc", "/etc", "--proc", "/proc"]
        command += ["--ro-bind", "/proc/sys", "/proc/sys"]
        for path in _PROC_HIDDEN:
            if Path(path).exists():
                command += ["--ro-bind", os.devnull, path]
        command += ["--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
        command += ["--dir", "/run", "--dir", "/var", "--dir", "/tmp", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
        command += [
            *_above(HOME, WORK / "any"),
            "--bind" if overlay else "--ro-bind",
            str(HOME),
            str(HOME),
            "",
        ]
        shown = (path if path.is_dir() else path.parent for path in self.shown)
        return [*command, *self._showing({path: path for path in shown})]

    def _entry(self, verb: str, given: str) -> list[str]:
        return [self.python, "-I", "-S", str(SANDBOX_ENTRY), verb, given]

    def _fresh(self, powers: Sequence[str]) -> list[str]:
        """Return the options for namespaces of its own, with only these capabilities where root makes
        them."""
        command = [self.bwrap, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        command += ["--new-session", "--cap-drop", "ALL"]
        if self.user_namespaces:
            return [*command, "--unshare-user", "--uid", USER, "--gid", USER]
        return [*command, *(word for power in powers for word in ("--cap-add", f"CAP_{power}"))]

    def _system(self) -> list[str]:
        command = ["--dir", "/nix"] if Path("/nix").exists() else []
        for name in SYSTEM:
            command += ["--ro-bind-try", name, name]
        for path in map(Path, LINKED):
            if path.is_symlink():
                command += ["--symlink", str(path.readlink()), str(path)]
            else:
                command += ["--ro-bind-try", str(path), str(path)]
        return command

    def _showing(self, shown: Mapping[Path, Path]) -> list[str]:
        """Return the options that show paths, by where they are seen."""
        command = _above(*shown)
        for path, source in shown.items():
            command += ["--ro-bind", str(source), str(path)]
        for path in self.hidden:
            if any(path.is_relative_to(shown) for shown in (*self.shown, *map(Path, SYSTEM))):
                command += ["--tmpfs", str(path)] if path.is_dir() else []
                command += ["--ro-bind", os.devnull, str(path)] if path.is_file() else []
        return command


def _above(*paths: Path) -> list[str]:
    """Return the directories above these, so that every user can pass: bubblewrap makes them for its own
    user."""
    above = {parent for path in paths for parent in path.parents if parent != Path("/")}
    return [word for parent in sorted(above) for word in ("--dir", str(parent))]
