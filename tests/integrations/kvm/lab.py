"""What tests of microVMs need: a root, tiny guests under emulation, and a desk that they call."""

import asyncio
import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.domain.template import TemplateSpec
from muster.integrations.kvm.provider import KvmProvider
from muster.integrations.kvm.snapshots import snapshots_of
from muster.integrations.kvm.tables import QEMU, Accelerator
from muster.slots.limits import empty
from muster.slots.processes import kill_carriers
from muster.slots.tree import Slot, Tree
from muster.testing.provider_contract import INSTALLATION, OTHER_INSTALLATION
from tools.microvm import getting, guest

PATIENCE = 100.0
"""Seconds for a boot under emulation, on a machine where other tests run."""
needs_microvms = pytest.mark.skipif(getting.missing() is not None, reason=str(getting.missing()))


def table(**changes: Any) -> dict[str, Any]:
    """The table of a template whose guests are this machine's Python."""
    return {
        "kernel": str(getting.kernel()),
        "initrd": str(guest.initramfs()),
        "root": str(guest.root()),
        **changes,
    }


def _end_maker(lock: Path) -> None:
    """Kill a maker by the descriptor with which it holds its lock, and wait until it has let go."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink() == lock and int(link.parts[2]) != os.getpid():
                os.kill(int(link.parts[2]), signal.SIGKILL)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


class Lab:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._callers: dict[str, asyncio.StreamWriter] = {}
        self._changed = asyncio.Condition()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._greet, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.disk = self.root.with_name("disk")
        self.disk.write_bytes(bytes(1 << 20))

    async def close(self) -> None:
        for lock in snapshots_of(self.root).glob("*/lock"):
            await asyncio.to_thread(_end_maker, lock)
        records = [record for slot in self.slots() if (record := slot.record()) is not None]
        while await asyncio.to_thread(kill_carriers, {record.marker for record in records}):
            pass
        for group in {record.cgroup for record in records if record.cgroup}:
            while not await asyncio.to_thread(empty, Path(group)):
                pass
        self._server.close()
        for writer in self._callers.values():
            writer.close()
        await self._server.wait_closed()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        async with self._changed:
            self._callers[name] = writer
            self._changed.notify_all()

    def template(self, **changes: Any) -> TemplateSpec:
        """Guests that only print what the desk sends them. They never say that they are ready."""
        desk = {"root": str(self.disk), "cmdline": f"quiet muster.desk={self.port}", "snapshot": False}
        content = table(**(desk | changes))
        return TemplateSpec(name="work", provider="kvm", tables={"kvm": content})

    def provider(self, installation_id: str = INSTALLATION, **changes: Any) -> KvmProvider:
        settings: dict[str, Any] = {
            "servers": ("http://127.0.0.1:9",),
            "capacity": 10,
            "qemu": QEMU,
            "accelerator": Accelerator.TCG,
            "dead_man": lambda _spec: 600.0,
        }
        return KvmProvider(self.root, installation_id=installation_id, **(settings | changes))

    def slots(self) -> list[Slot]:
        trees = (Tree(self.root, each) for each in (INSTALLATION, OTHER_INSTALLATION))
        return [slot for tree in trees for slot in tree.all_slots()]

    def slot(self, machine_id: str) -> Slot:
        found = Tree(self.root, INSTALLATION).slot(machine_id)
        assert found is not None
        return found

    async def booted(self, machine_id: str) -> asyncio.StreamWriter:
        """Until the guest has called."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: machine_id in self._callers)
        return self._callers[machine_id]

    async def write(self, machine_id: str, text: str) -> None:
        writer = await self.booted(machine_id)
        writer.write(text.encode())
        await writer.drain()
        last = text.splitlines()[-1].encode()
        console = self.slot(machine_id).console
        async with asyncio.timeout(PATIENCE):
            while last not in await asyncio.to_thread(console.read_bytes):  # noqa: ASYNC110 — a file has no signal
                await asyncio.sleep(0.02)

    async def hang_up(self, machine_id: str) -> None:
        """Let the guest power itself off."""
        (await self.booted(machine_id)).close()
