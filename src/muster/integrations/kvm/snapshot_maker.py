"""Make one snapshot: boot a machine, save it before it has an identity, and prove that a copy wakes up.

Usage: snapshot_maker.py DIRECTORY, where plan.json is. `snapshots` writes the plan and reads the result:

    plan.json        command lines, the program for disks, the patience, what the manifest says
    disk.qcow2       what the machine wrote to its disk      state    its memory and devices
    manifest.json    written last: the snapshot is whole     failed.json   why there is none

A program of its own, so that a server that is killed leaves no machine behind and no snapshot half made. The
kernel kills QEMU if this program is killed. A lock lets one of several makers work.

It imports nothing but the standard library and runs with -I -S.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

MONITOR_FD, STATE_FD = 5, 5
CHUNK = 65536
TAIL = 500
BANDWIDTH = 1 << 40
POLL = 0.02
PR_SET_PDEATHSIG = 1


class CannotMake(Exception):
    """Why there is no snapshot, for people."""


class Machine:
    """One QEMU process that ends with this one."""

    def __init__(self, argv: list[str], latest: float, *, passed: int) -> None:
        self._latest = latest
        self._said = b""
        maker = os.getpid()

        def become() -> None:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != maker:
                os._exit(127)
            os.dup2(passed, STATE_FD)

        self._console, saying = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603  # the plan's own program
            argv,
            stdin=subprocess.DEVNULL,
            stdout=saying,
            stderr=saying,
            preexec_fn=become,  # noqa: PLW1509  # there are no threads
            pass_fds=(STATE_FD,),
        )
        os.close(saying)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._console)

    def wait_for(self, words: str) -> None:
        """Read the console until these words are in it."""
        while words.encode() not in self._said:
            left = self._latest - time.monotonic()
            data = self._hear(max(0.0, left))
            if not data:
                what = "took too long" if data is None else "ended"
                raise CannotMake(f"the machine {what} before it said {words!r}: {self.tail()}")

    def tail(self) -> str:
        """Return the last words of the console."""
        while self._hear(0.0):
            pass
        return self._said[-TAIL:].decode("utf-8", "replace").strip() or "it said nothing"

    def _hear(self, patience: float) -> bytes | None:
        """Read what was said: nothing at its end, None if nothing came in time."""
        if not select.select([self._console], [], [], patience)[0]:
            return None
        data = os.read(self._console, CHUNK)
        self._said = (self._said + data)[-CHUNK:]
        return data


class Monitor:
    """QEMU's own protocol, over one end of a pair of sockets."""

    def __init__(self, end: socket.socket, latest: float) -> None:
        self._end, self._latest, self._unread = end, latest, b""
        self.call("qmp_capabilities")

    def call(self, command: str, passed: int | None = None, **arguments: Any) -> dict[str, Any]:
        data = json.dumps({"execute": command, "arguments": arguments}).encode()
        if passed is None:
            self._end.sendall(data)
        else:
            socket.send_fds(self._end, [data], [passed])
        while True:
            said = self._line()
            if "error" in said:
                raise CannotMake(f"QEMU refused {command}: {said['error'].get('desc')}")
            if "return" in said:
                answer: dict[str, Any] = said["return"]
                return answer

    def _line(self) -> dict[str, Any]:
        while b"\n" not in self._unread:
            self._end.settimeout(max(0.01, self._latest - time.monotonic()))
            try:
                data = self._end.recv(CHUNK)
            except TimeoutError:
                data = b""
            if not data:
                raise CannotMake("QEMU's monitor does not answer")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


class Maker:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._plan: dict[str, Any] = json.loads((directory / "plan.json").read_bytes())
        self._latest = time.monotonic() + self._plan["patience"]

    def run(self) -> None:
        began = time.monotonic()
        try:
            self._clear()  # of a maker that was killed
            self._make_disk()
            self._save()
            self._try()
            took = round(time.monotonic() - began, 1)
            self._write("manifest.json", {**self._plan["manifest"], "took": took, "at": time.time()})
        except (CannotMake, OSError, ValueError, subprocess.SubprocessError) as error:
            self._clear()
            self._write("failed.json", {**self._plan["manifest"], "why": str(error), "at": time.time()})

    def _clear(self) -> None:
        for name in ("disk.qcow2", "state", "failed.json"):
            with suppress(FileNotFoundError):
                (self._directory / name).unlink()

    def _make_disk(self) -> None:
        done = subprocess.run(  # noqa: S603  # the plan's own program
            self._plan["make_disk"], capture_output=True, timeout=self._plan["patience"], check=False
        )
        if done.returncode:
            raise CannotMake(f"cannot make a disk: {done.stderr.decode('utf-8', 'replace').strip()}")

    def _save(self) -> None:
        ours, qemus = socket.socketpair()
        with ours, Machine(self._plan["boot"], self._latest, passed=qemus.fileno()) as machine:
            qemus.close()
            machine.wait_for(self._plan["ready"])
            monitor = Monitor(ours, self._latest)
            monitor.call("migrate-set-parameters", **{"max-bandwidth": BANDWIDTH})
            state = os.open(self._directory / "state", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                monitor.call("getfd", passed=state, fdname="state")
                monitor.call("migrate", uri="fd:state")
                self._wait_until_saved(monitor, machine)
                os.fsync(state)
            finally:
                os.close(state)
            monitor.call("quit")

    def _wait_until_saved(self, monitor: Monitor, machine: Machine) -> None:
        while True:
            answer = monitor.call("query-migrate")
            if answer.get("status") == "completed":
                return
            if answer.get("status") == "failed" or time.monotonic() > self._latest:
                why = answer.get("error-desc") or answer["status"]
                raise CannotMake(f"QEMU cannot save the machine: {why}; {machine.tail()}")
            time.sleep(POLL)  # a program of its own, and some tenths of a second long

    def _try(self) -> None:
        state = os.open(self._directory / "state", os.O_RDONLY)
        try:
            with Machine(self._plan["try"], self._latest, passed=state) as machine:
                machine.wait_for(self._plan["restored"])
        finally:
            os.close(state)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        beside = self._directory / f".{name}"
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._directory / name)


def main() -> None:
    os.umask(0o077)
    directory = Path(sys.argv[1])
    lock = os.open(directory.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    for other in sorted(directory.parent.iterdir()):
        if other.is_dir() and other != directory:
            shutil.rmtree(other, ignore_errors=True)
    if not (directory / "manifest.json").exists():
        Maker(directory).run()


if __name__ == "__main__":
    main()
