"""bubblewrap: whether it works here, and how a node is wrapped in it.

Inside, a node has its own processes (pid namespace), its own ipc and host name, a private /tmp, and its
work directory at /node, and none of root's capabilities. It sees the system's programs read-only, Python, and
the agent's file; not the data directory, HOME, other nodes' slots or the rest of /etc. The network is shared:
it must reach the server. Refuses to believe that it works: `probe` runs it and looks.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

NODE = Path("/node")
PRIVATE = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108  # each sandbox has its own
"""What every program may write to, beside NODE."""
TIMEOUT = 15.0
_SYSTEM = ("/usr", "/opt", "/nix/store")
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Only what programs need to run, resolve names and check certificates: /etc holds secrets too.
_ETC = """
    alternatives bash.bashrc ca-certificates ca-certificates.conf crypto-policies debian_version
    environment fonts gai.conf gitconfig group host.conf hosts inputrc ld.so.cache ld.so.conf
    ld.so.conf.d locale.alias localtime login.defs mime.types nsswitch.conf os-release passwd pki
    profile profile.d protocols resolv.conf services shells ssl terminfo timezone
"""

_LOOK = """
import json, os, sys
hidden, shown = json.loads(sys.argv[1])
names = (os.path.join(path, name) for path in hidden if os.path.isdir(path) for name in os.listdir(path))
seen = [name for name in names if not any((path + "/").startswith(name + "/") for path in shown)]
powers = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
if os.getpid() > 10: print("it has no pid namespace of its own")
elif any(int(each, 16) for each in powers): print("it keeps the capabilities", powers[0])
elif seen: print("it still sees", seen[0])
else: print("works")
"""
_PREFIXES = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.base_exec_prefix]))"


class Isolation(StrEnum):
    SANDBOX = "sandbox"
    NONE = "none"
    AUTO = "auto"
    """The sandbox if it works, else none, and then it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    bwrap: str
    shown: tuple[Path, ...]
    """Besides the system: Python's prefixes and the agent's files."""
    hidden: tuple[Path, ...]

    def wrap(self, argv: Sequence[str], *, work: Path, tmp: Path) -> list[str]:
        command = [self.bwrap, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        # The parent is the slot's keeper, not the server: nodes outlive the server, but not their keeper.
        command += ["--die-with-parent", "--new-session"]
        # Root's powers reach through every mount: with them a job opens any file of the disk by its number.
        command += ["--cap-drop", "ALL"]
        for name in _SYSTEM:
            command += ["--ro-bind-try", name, name]
        for path in map(Path, _LINKED):
            if path.is_symlink():
                command += ["--symlink", str(path.readlink()), str(path)]
            else:
                command += ["--ro-bind-try", str(path), str(path)]
        for name in _ETC.split():
            command += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        command += ["--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var"]
        command += ["--bind", str(tmp), "/tmp", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108  # it is private
        for path in self.shown:
            command += ["--ro-bind", str(path), str(path)]
        for path in self.hidden:
            if path.is_dir() and any(
                path.is_relative_to(shown) for shown in (*self.shown, *map(Path, _SYSTEM))
            ):
                command += ["--tmpfs", str(path)]
        return [*command, "--bind", str(work), str(NODE), "--chdir", str(NODE), "--", *argv]


def probe(*, python: str, agent: Sequence[str], hidden: Sequence[Path], scratch: Path) -> Sandbox | str:
    """The sandbox if it works here, else why not, in words. `scratch` is an empty directory to try it in."""
    bwrap = shutil.which("bwrap")
    if sys.platform != "linux" or bwrap is None:
        return "bubblewrap exists only on Linux" if sys.platform != "linux" else "bubblewrap is not installed"
    try:
        prefixes = [Path(prefix) for prefix in json.loads(_run([python, "-I", "-c", _PREFIXES]))]
        shown = _outermost([*prefixes, *_real(python), *(file for part in agent for file in _real(part))])
        resolved = tuple(path.resolve() for path in hidden)
        sandbox = Sandbox(bwrap=bwrap, shown=shown, hidden=resolved)
        look = [
            python,
            "-I",
            "-c",
            _LOOK,
            json.dumps([[str(path) for path in group] for group in (resolved, shown)]),
        ]
        said = _run(sandbox.wrap(look, work=scratch, tmp=scratch))
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        return f"bubblewrap fails here: {words[-1] if words else f'exit status {error.returncode}'}"
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap could not be tried: {error}"
    return sandbox if said == "works" else f"bubblewrap doesn't isolate here: {said}"


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(  # noqa: S603  # our own command lines
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )
    return done.stdout.strip()


def _real(part: str) -> list[Path]:
    """A word of a command line that is a file: where it is named, and where it really is."""
    path = Path(part)
    return [path, path.resolve()] if path.is_absolute() and path.is_file() else []


def _outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Without what the system shows anyway, and without what lies in another."""
    known = [Path(path) for path in (*_SYSTEM, *_LINKED)]
    kept: list[Path] = []
    for path in sorted(dict.fromkeys(paths)):
        if not any(path.is_relative_to(other) for other in (*known, *kept)):
            kept.append(path)
    return tuple(kept)
