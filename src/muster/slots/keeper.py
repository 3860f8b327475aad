"""The keeper of one slot: a program of its own, started once per node, that outlives the server.

Usage: keeper.py SLOT, with the slot's lock on descriptor 3 and the secret's pipe on descriptor 4.

The keeper owns the life of one node's processes. It starts the agent, inside bubblewrap if the plan says so,
and writes down its output (bounded). It passes SIGTERM on, and kills after the grace. It ends only when
nothing of the tree is left: as subreaper it becomes the parent of orphans, so no daemon escapes. Then the
kernel frees the lock. If the keeper itself is killed, the kernel kills agent or sandbox at once, and the
server removes what is left. The keeper refuses to start an agent whose end was already asked for.

It imports nothing but the standard library and runs with -I -S, so that it starts fast and sees no installed
packages. Any Python from 3.8 on runs it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK, SECRET, FIRST_OTHER = 3, 4, 5
INPUT = FIRST_OTHER
"""Where the agent finds the plan's `input`, a file, if there is one."""
LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CHUNK = 65536
MOST_DESCRIPTORS = 1 << 20
AGENT_IN_NAMESPACE = 2
"""bubblewrap's own init is 1, the agent always comes second."""
RETRY = 0.05
AT_ONCE = 10.0
"""Seconds in which an agent that fails has done nothing yet, so that the plan's `fallback` may follow it."""
HELD_BACK = (signal.SIGTERM, signal.SIGINT)


def prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def stat_fields(pid: str) -> list[str]:
    """Return /proc/PID/stat from its third field on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    except OSError:
        return []


def start_time(pid: int) -> str:
    if LINUX:
        return stat_fields(str(pid))[19]
    with os.popen(f"/bin/ps -o lstart= -p {pid}") as out:  # noqa: S605  # a number
        return out.read().strip()


def children(parent: int) -> list[int]:
    """Return the direct children; ours can't lose their pids before we reap them."""
    wanted = str(parent)
    pids = (entry.name for entry in os.scandir("/proc") if entry.name.isdigit()) if LINUX else ()
    return [int(pid) for pid in pids if stat_fields(pid)[1:2] == [wanted]]


class Console:
    """What the node says: descriptors 1 and 2, in a file that is turned over once it is full."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        self._size = path.stat().st_size if path.exists() else 0

    def write(self, data: bytes) -> None:
        # A full disk costs words, not the node.
        with suppress(OSError):
            if self._size + len(data) > self._limit:
                self._turn()
            self._size += len(data)
            while data:
                data = data[os.write(1, data) :]

    def _turn(self) -> None:
        self._path.replace(self._path.with_name("console.1.log"))
        fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(fresh, 1)
        os.dup2(fresh, 2)
        os.close(fresh)
        self._size = 0


class Keeper:
    def __init__(self, slot: Path) -> None:
        self._slot = slot
        self._plan: dict[str, Any] = json.loads((slot / "started.json").read_bytes())["plan"]
        self._console = Console(slot / "console.log", self._plan["console_limit"])
        self._agent = 0
        self._status: int | None = None
        self._asked = False
        self._told = False

    def run(self) -> None:
        wake = self._listen()
        self._record()
        # In this order: a request to end is written down first, and then our record is looked for.
        if (self._slot / "terminate").exists():
            return
        began = time.monotonic()
        self._keep(wake)
        if "fallback" in self._plan and self._failed and time.monotonic() - began < AT_ONCE:
            self._fall_back()
            self._keep(wake)
        self._console.write(f"muster: {self._epitaph()}\n".encode())

    def _keep(self, wake: int) -> None:
        """Start the agent and stay until nothing of it is left."""
        said, saying = os.pipe()
        os.set_blocking(said, False)
        self._agent, self._status = self._start(saying), None
        os.close(saying)
        if "fallback" not in self._plan:
            os.close(SECRET)
        self._watch(wake, said)
        self._kill_all()
        self._hear(said)
        os.close(said)

    @property
    def _failed(self) -> bool:
        status = self._status or 0
        return not self._asked and os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0

    def _fall_back(self) -> None:
        """Take the other plan, and write down why the first one failed."""
        fallback = self._plan.pop("fallback")
        self._console.write(f"muster: {fallback['why']}: {self._epitaph()}\n".encode())
        with suppress(OSError):
            Path(fallback["note"]).write_text(f"{fallback['why']}: {self._epitaph()}\n")
        self._plan = {**self._plan, "argv": fallback["argv"], "input": None}

    def _listen(self) -> int:
        wake, waking = os.pipe()
        for end in (wake, waking):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for sign in HELD_BACK:
            signal.signal(sign, self._ask)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        return wake

    def _ask(self, *_: object) -> None:
        self._asked = True

    def _record(self) -> None:
        beside = self._slot / ".keeper.new"
        beside.write_text(json.dumps({"pid": os.getpid(), "start_time": start_time(os.getpid())}))
        beside.replace(self._slot / "keeper.json")

    # --- the agent --------------------------------------------------------------------------------

    def _start(self, saying: int) -> int:
        keeper = os.getpid()
        # Held back over the fork: the agent must not lose a SIGTERM to the keeper's own handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
            return pid
        try:
            self._become(keeper, saying)
        except BaseException as error:  # nothing of the keeper may go on in this process
            os.write(2, f"muster: cannot start the agent: {error}\n".encode())
        os._exit(127)

    def _become(self, keeper: int, saying: int) -> None:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(127)
        os.dup2(saying, 1)
        os.dup2(saying, 2)
        if self._plan["cgroup"]:
            self._try("join its cgroup", lambda: self._group("cgroup.procs").write_text("0"))
        for name, limit in self._plan["rlimits"].items():
            self._try(f"limit {name}", partial(limit_to, name, limit))
        os.set_inheritable(LOCK, False)
        for sign in (*HELD_BACK, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(sign, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        if self._plan.get("input"):
            os.dup2(os.open(self._plan["input"], os.O_RDONLY), INPUT)
        os.chdir(self._plan["directory"])
        argv = self._plan["argv"]
        os.execve(argv[0], argv, self._plan["environment"])  # noqa: S606  # what this program is for

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except (OSError, ValueError) as error:
            os.write(2, f"muster: cannot {what}: {error}\n".encode())

    def _group(self, name: str) -> Path:
        return Path(self._plan["cgroup"]) / name

    # --- its life ---------------------------------------------------------------------------------

    def _watch(self, wake: int, said: int) -> None:
        """Wait until the agent has ended by itself, or its grace is over."""
        latest: float | None = None
        ears = [wake, said]
        while self._status is None:
            now = time.monotonic()
            if self._asked and latest is None:
                latest = now + self._plan["grace"]
            if latest is not None and now >= latest:
                return
            if self._asked and not self._told:
                self._told = self._tell()
            patience = None if latest is None else latest - now if self._told else min(RETRY, latest - now)
            ready, _, _ = select.select(ears, [], [], patience)
            if said in ready and not self._hear(said):
                ears.remove(said)
            with suppress(BlockingIOError):
                os.read(wake, CHUNK)
            self._reap()

    def _hear(self, said: int) -> bool:
        """Take what was said, up to a bound; False at its end."""
        for _ in range(16):
            try:
                data = os.read(said, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._console.write(data)
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, status)

    def _note(self, pid: int, status: int) -> None:
        if pid == self._agent:
            self._status = status

    def _tell(self) -> bool:
        """Send SIGTERM to the agent; return False if it isn't there yet."""
        if not self._plan["sandboxed"]:
            with suppress(ProcessLookupError):
                os.killpg(self._agent, signal.SIGTERM)
                return True
            return False
        for init in children(self._agent):
            for pid in children(init):
                if namespaced(pid) == AGENT_IN_NAMESPACE:
                    os.kill(pid, signal.SIGTERM)
                    return True
        return False

    def _kill_all(self) -> None:
        """Kill until there is no child left. Orphans of a killed process become our children, so none is
        missed."""
        if self._status is None or not LINUX:
            with suppress(OSError):
                os.killpg(self._agent, signal.SIGKILL)
        while True:
            if self._plan["cgroup"]:
                with suppress(OSError):
                    self._group("cgroup.kill").write_text("1")
            for pid in children(os.getpid()) if LINUX else [self._agent] if self._status is None else []:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                self._note(*os.waitpid(-1, 0))
            except ChildProcessError:
                return

    def _epitaph(self) -> str:
        status = self._status or 0
        ended = os.WIFEXITED(status)
        how = f"exit status {os.WEXITSTATUS(status)}" if ended else f"signal {os.WTERMSIG(status)}"
        return f"the agent ended with {how}{', as asked for' if self._asked else ''}"


def namespaced(pid: int) -> int:
    """Return a process's pid in its own pid namespace."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def limit_to(name: str, value: int) -> None:
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def main() -> None:
    os.umask(0o077)
    with suppress(OSError):
        os.setsid()  # already done, where the spawning call can
    os.closerange(FIRST_OTHER, MOST_DESCRIPTORS)
    Keeper(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
