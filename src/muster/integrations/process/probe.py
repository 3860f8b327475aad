"""Whether a sandbox works here: runs one, and looks from inside and from outside.

A root server tries two ways: with user namespaces, and without them. Refuses to believe what it hasn't seen.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from muster.integrations.process.sandbox import (
    HOME,
    LINKED,
    NO_NESTING,
    SANDBOX_ENTRY,
    SYSTEM,
    UID_LEAST,
    WORK,
    Sandbox,
)

TIMEOUT = 15.0
_UID_LAST = 2_000_000_000
_LOOK = """
import ctypes, json, os, sys
hidden, shown, nests = json.loads(sys.argv[1])
names = (os.path.join(path, name) for path in hidden if os.path.isdir(path) for name in os.listdir(path))
seen = [name for name in names if not any((path + "/").startswith(name + "/") for path in shown)]
powers = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
def writable(path):
    try: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)); return True
    except OSError: return False
opened = [path for path in ("/left", "/run/left", "/etc/ld.so.preload", "/dev/left",
    "/proc/sys/kernel/core_pattern") if writable(path)]
own = writable("/node/home/own")
CLONE_NEWUSER = 0x10000000
if os.getpid() > 10: print("it has no pid namespace of its own")
elif any(int(each, 16) for each in powers): print("it keeps the capabilities", powers[0])
elif not own: print("it has no place to write to")
elif os.getuid() == 0: print("it keeps the user id 0")
elif seen: print("it still sees", seen[0])
elif opened: print("it can write to", opened[0])
elif not nests and ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0: print("it can make user namespaces")
else: print("works")
"""
_PREFIXES = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.base_exec_prefix]))"


def probe(*, python: str, agent: Sequence[str], hidden: Sequence[Path], scratch: Path) -> Sandbox | str:
    """Return the sandbox if one works here, else the reason. `scratch` is an empty directory to try it in."""
    bwrap = shutil.which("bwrap")
    if sys.platform != "linux" or bwrap is None:
        return "bubblewrap exists only on Linux" if sys.platform != "linux" else "bubblewrap is not installed"
    try:
        last_uid = _last_uid() if os.geteuid() == 0 else None
        prefixes = [Path(prefix) for prefix in json.loads(_run([python, "-I", "-c", _PREFIXES]))]
        nests = NO_NESTING not in _run([bwrap, "--help"], check=False)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"bubblewrap could not be tried: {error}"
    files = [file for part in (python, *agent, str(SANDBOX_ENTRY)) for file in _real(part)]
    sandbox = Sandbox(
        bwrap=bwrap,
        python=python,
        shown=_outermost([*prefixes, *files]),
        hidden=tuple(path.resolve() for path in hidden),
        last_uid=last_uid,
        nests=nests,
    )
    wrong = _tried(sandbox, scratch / "namespaces")
    if wrong and last_uid is not None:
        sandbox = replace(sandbox, user_namespaces=False)
        again = _in_tmp(sandbox) or _tried(sandbox, scratch / "root")
        wrong = again and f"{wrong}; and without user namespaces, {again}"
    return wrong or replace(sandbox, no_overlay=_tried(sandbox, scratch / "overlay", overlay=True))


def _in_tmp(sandbox: Sandbox) -> str:
    """Return why root can't wrap jobs for paths in /tmp.

    To show them, root would make directories in each job's own /tmp, which no agent could wipe.
    """
    tops = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  # both are a job's own
    inside = [str(path) for path in sandbox.shown if any(path.is_relative_to(top) for top in tops)]
    return f"{inside[0]} must not lie in a /tmp: install it elsewhere" if inside else ""


def _tried(sandbox: Sandbox, place: Path, *, overlay: bool = False) -> str:
    """Run a job that looks around in a node of its own; return what is wrong, or nothing."""
    hidden, shown = ([str(path) for path in group] for group in (sandbox.hidden, sandbox.shown))
    given = json.dumps([hidden, shown, sandbox.nests or not sandbox.user_namespaces])
    look = [sandbox.python, "-I", "-c", _LOOK, given]
    own = place / "work" / HOME.name / "own"
    try:
        place.mkdir()
        sandbox.prepare(place, "")
        for name in (HOME.name, WORK.name):
            (place / "work" / name).mkdir()
            os.chown(place / "work" / name, *(place / "work").stat()[4:6])
        job = [word for word in sandbox.job("", overlay=overlay) if word]
        job += [] if overlay else ["--bind", str(HOME), str(HOME)]
        job += ["--remount-ro", "/", "--", *look]
        said = _run(sandbox.wrap(job, place=place, machine_id=""))
        if said == "works" and not overlay and own.stat().st_uid == 0:
            said = "it keeps the user id 0"
        if said == "works" and overlay and own.exists():
            said = "what it writes to the overlay is still there afterwards"
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()
        return f"bubblewrap fails here: {words[-1] if words else f'exit status {error.returncode}'}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap could not be tried: {error}"
    return "" if said == "works" else f"bubblewrap doesn't isolate here: {said}"


def _last_uid() -> int:
    """Return the last user id that exists here: a container may have few."""
    extents = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    last = min(_UID_LAST, max(first + count - 1 for first, _, count in extents))
    if last <= UID_LEAST:
        raise ValueError(f"this machine has no user id above {UID_LEAST} to give to nodes")
    return last


def _run(command: Sequence[str], *, check: bool = True) -> str:
    done = subprocess.run(  # noqa: S603  # our own command lines
        command,
        capture_output=True,
        text=True,
        check=check,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )
    return done.stdout.strip()


def _real(part: str) -> list[Path]:
    """Return where a file on the command line is named, and where it really is."""
    path = Path(part)
    return [path, path.resolve()] if path.is_absolute() and path.is_file() else []


def _outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the paths without those that the system shows anyway, and without those inside of another."""
    known = [Path(path) for path in (*SYSTEM, *LINKED)]
    kept: list[Path] = []
    for path in sorted(dict.fromkeys(paths)):
        if not any(path.is_relative_to(other) for other in (*known, *kept)):
            kept.append(path)
    return tuple(kept)
