"""What tests of local processes need: a root, a desk that agents report to, and a clean-up."""

import asyncio
import fcntl
import json
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.integrations.process.provider import ProcessProvider
from muster.integrations.process.sandbox import Isolation
from muster.slots.limits import empty
from muster.slots.processes import kill_carriers
from muster.slots.tree import Slot, Tree
from muster.testing.provider_contract import INSTALLATION, OTHER_INSTALLATION, PATIENCE

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
PYTHON = str(Path(sys.executable).resolve())


class Caller:
    """A process that reported to the desk."""

    def __init__(self, facts: dict[str, Any], reader: asyncio.StreamReader) -> None:
        self.facts = facts
        self._reader = reader

    async def died(self) -> None:
        async with asyncio.timeout(PATIENCE):
            try:
                assert await self._reader.read() == b""
            except ConnectionResetError:
                return

    @property
    def alive(self) -> bool:
        return not self._reader.at_eof()


class Desk:
    """Where stand-ins report; each connection lives as long as its process."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self._changed = asyncio.Condition()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._greet, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        facts = json.loads(await reader.readline())
        async with self._changed:
            self.callers.append(Caller(facts, reader))
            self._changed.notify_all()

    async def met(self, count: int, role: str = "agent") -> list[Caller]:
        """The first so many callers of a role, once they have all come."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.of(role)) >= count)
            return self.of(role)[:count]

    def of(self, role: str) -> list[Caller]:
        return [caller for caller in self.callers if caller.facts["role"] == role]


class Lab:
    def __init__(self, root: Path, desk: Desk) -> None:
        self.root = root
        self.desk = desk
        self.tree = Tree(root, INSTALLATION)

    def provider(self, manner: str = "plain", **changes: Any) -> ProcessProvider:
        settings: dict[str, Any] = {
            "installation_id": INSTALLATION,
            "servers": [self.desk.url],
            "capacity": 10,
            "isolation": Isolation.NONE,
            "grace": 20.0,
            "agent": (PYTHON, "-I", "-S", STAND_IN, manner),
            "cgroups": False,
        }
        return ProcessProvider(self.root, **(settings | changes))

    def slots(self) -> list[Slot]:
        trees = (self.tree, Tree(self.root, OTHER_INSTALLATION))
        return [slot for tree in trees for slot in tree.all_slots()]

    def write(self, machine_id: str, text: str) -> None:
        with self.slot(machine_id).console.open("a") as console:
            console.write(text)

    def slot(self, machine_id: str) -> Slot:
        found = self.tree.slot(machine_id)
        assert found is not None
        return found

    def sweep(self) -> None:
        """Every process that a test left, by pid."""
        records = [record for slot in self.slots() if (record := slot.record()) is not None]
        for caller in self.desk.callers:
            if caller.alive and caller.facts["role"] == "stray":
                _kill(caller.facts["pid"])
        while kill_carriers({record.marker for record in records}):
            pass
        for group in {record.cgroup for record in records if record.cgroup}:
            while not empty(Path(group)):
                pass


def _kill(pid: int) -> None:
    """A stray, if this pid is one: a sandboxed one gave a number of its own namespace."""
    with suppress(OSError):
        if STAND_IN.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


async def unlocked(slot: Slot) -> None:
    """Until the kernel has freed the slot's lock."""

    def wait() -> None:
        with (slot.path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(wait)


async def recorded(slot: Slot) -> int:
    """The keeper's pid, once the keeper has written it down."""
    async with asyncio.timeout(PATIENCE):
        while True:
            kept = await asyncio.to_thread(slot.kept)
            if kept is not None:
                return kept.pid


async def ended(pid: int) -> None:
    """Until the process is dead, or a zombie."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], PATIENCE)
        assert ready, f"process {pid} still runs"
    finally:
        os.close(descriptor)
