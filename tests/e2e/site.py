"""A data directory with a real server in a process of its own, real agents, and the ways to hurt them.

Owns every process that a test causes: `close` leaves none, whatever happened. `verify` is what every test
ends with: all was given back, nothing is left, and the history is one that may be.
"""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import httpx

from muster.client import CannotReach, SyncClient, calls
from muster.client.calls import Call
from muster.domain.command import Execution
from muster.domain.errors import Gone, NotYet, StoreUnavailable
from muster.domain.ids import OperationId
from muster.domain.lifecycle import LIVE, NodeState
from muster.domain.requests import ProvisionRequest
from muster.domain.run_decisions import provision_key, release_key
from muster.domain.template import TemplateSpec
from muster.slots.processes import carriers, kill_carriers, running
from muster.slots.tree import Slot, Tree
from muster.wire.commands import Command
from muster.wire.events import Event
from muster.wire.nodes import Node
from muster.wire.operations import Operation
from muster_simulation.invariants.context import Context
from tests.e2e.fork_server import Child, ForkServer
from tests.e2e.history import judged
from tools.plain_http import NO_AUTHORITIES

T = TypeVar("T")
PATIENCE = 60.0
BRISK = "[limits]\nbeat_seconds = 1\nstale_after = 8\n"
"""Silence is noticed soon, and a busy machine may still be late by seven beats."""
STEP_LEAST, STEP_MOST = 0.01, 0.2
UNFINISHED = ("queued", "running")
_KEYS = {"provision": provision_key, "release": release_key}
PORTS = range(20_000, 32_000)
"""Below what the kernel gives to outgoing connections: a port must still be free after a kill."""


def until(holds: Callable[[], T | None], what: str, within: float = PATIENCE) -> T:
    """Look at the world until it gives something true. A look asks a server: long waits look less often."""
    began = time.monotonic()
    while True:
        found = holds()
        if found:
            return found
        waited = time.monotonic() - began
        assert waited < within, f"waited {within:g} s in vain for {what}"
        time.sleep(min(STEP_MOST, STEP_LEAST + waited / 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A node as processes: its keeper and its agent, by their pids on this machine."""

    slot: Slot
    keeper: int
    agent: int

    def tree(self) -> list[int]:
        """Every process of the node that does anything, the keeper first."""
        return [pid for pid in below(self.keeper) if running(pid)]

    @property
    def jobs(self) -> list[int]:
        """What the agent started."""
        return [pid for pid in below(self.agent) if pid != self.agent and running(pid)]


class Site:
    def __init__(
        self,
        root: Path,
        fork_server: ForkServer,
        *,
        config: str = "",
        cgroups: bool = True,
        machines: Path | None = None,
        **options: Any,
    ) -> None:
        """`machines`: where its nodes' processes are kept, if not in its data directory. More options are for
        the launcher."""
        self.root = root
        self._fork_server = fork_server
        self.data = root / "data"
        self._machines = machines or self.data / "nodes"
        self.log = root / "server.log"
        self._options = {"pace": 0.1, "cgroups": cgroups, **options}
        self._order = root / "order"
        self._config = root / "muster.toml"
        self._config.write_text(config or f"{BRISK}[process]\ncapacity = 40\n")
        self._port = free_port()
        self._server: Child | None = None
        self._client: SyncClient | None = None
        self._pool = ThreadPoolExecutor(16)
        self.installation_id = ""

    # --- the server -------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def argv(self) -> list[str]:
        """What its launcher is told."""
        given = (self._config, self.data, self._port, self._order, json.dumps(self._options))
        return [str(each) for each in given]

    def start(self) -> "Site":
        """Start, or start again after an end, and wait until it listens."""
        assert self.try_start(), f"no start: {self.words()[-2000:]}"
        if self._client is None:
            token = (self.data / "admin.token").read_text().strip()
            self._client = SyncClient(self.url, token)
            self.installation_id = self._client.send(calls.installation()).id
        return self

    def try_start(self) -> bool:
        """Start it; False if it ended instead, as it does without its store."""
        assert self._server is None
        child = self._fork_server.start(self.argv, log=self.log)
        if child.first_word(30.0).strip() == self.url:
            self._server = child
            return True
        child.send(signal.SIGKILL)
        child.wait(10.0)
        return False

    def refused(self) -> str:
        """Start a server that won't; what it says last."""
        child = self._fork_server.start(self.argv, log=self.log)
        assert child.first_word(30.0) == ""
        assert child.wait(10.0) == 1
        return self.words().splitlines()[-1]

    def reconfigure(self, config: str) -> None:
        """For the next start."""
        self._config.write_text(config)

    def send(self, number: int) -> None:
        assert self._server is not None
        self._server.send(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self.gone() == -signal.SIGKILL

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.send(signal.SIGTERM)
        return self.gone()

    def gone(self, within: float = PATIENCE) -> int:
        """Wait for its end; its exit code, negative for a signal."""
        assert self._server is not None
        code = self._server.wait(within)
        self._server = None
        return code

    def restart(self) -> None:
        self.kill()
        self.start()

    def doom(self, label: str, occurrence: int = 1) -> None:
        """Let the server die in the moment after it has committed this."""
        self._strike(label, occurrence, signal.SIGKILL)

    def halt(self, verb: str) -> None:
        """Let the server stand still when it has decided on this write of the store, and not yet sent it."""
        self._strike(f"before:{verb}", 1, signal.SIGSTOP)

    def halted(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("T")

    def late(self) -> list[tuple[str, str]]:
        """What became of the writes that it had decided on when it was halted."""
        lines = [json.loads(line) for line in self.words().splitlines() if '"late write"' in line]
        return [(line["verb"], line["outcome"]) for line in lines]

    def _strike(self, label: str, occurrence: int, number: int) -> None:
        beside = self._order.with_name("order.new")
        beside.write_text(f"{label} {occurrence} {number:d}")
        beside.replace(self._order)

    def reprieve(self) -> None:
        self._order.unlink(missing_ok=True)

    def words(self) -> str:
        """All that the server has said."""
        return self.log.read_text() if self.log.exists() else ""

    # --- asking -----------------------------------------------------------------------------------

    @property
    def client(self) -> SyncClient:
        assert self._client is not None
        return self._client

    def http(self) -> httpx.Client:
        """Without the client's help."""
        token = (self.data / "admin.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=15, trust_env=False, verify=NO_AUTHORITIES
        )

    def ask(self, call: Call[T], within: float = PATIENCE) -> T:
        """Ask until the server answers: it may be dead just now. Only for what may be repeated."""
        assert call.repeatable
        latest = time.monotonic() + within
        while True:
            try:
                return self.client.send(call)
            except (CannotReach, StoreUnavailable, NotYet):
                if time.monotonic() > latest:
                    raise

    def soon(self, act: Callable[..., T], *given: Any) -> Future[T]:
        """Do it beside us: the server may die of it."""
        return self._pool.submit(act, *given)

    def template(self, name: str = "ci", **fields: Any) -> None:
        given = {"provider": "process", "resource_class": "small", **fields}
        self.client.send(calls.apply(TemplateSpec(name=name, **given)))

    def request(
        self, count: int = 1, run: str = "run", template: str = "ci", **more: Any
    ) -> ProvisionRequest:
        return ProvisionRequest(template=template, count=count, run=run, **more)

    def provision(self, count: int = 1, run: str = "run", **more: Any) -> Operation:
        """Ask for nodes and wait for the end."""
        return self.ended(self.ask(calls.provision(self.request(count, run, **more))))

    def release(self, operation: Operation) -> Operation:
        return self.ended(self.ask(calls.release(operation_id=operation.operation_id)))

    def run(self, *argv: str, count: int = 1, run: str = "run", **more: Any) -> Operation:
        """Start a run; it goes on by itself."""
        return self.ask(calls.run(self.request(count, run, **more), Execution(argv=argv)))

    def operation(self, operation_id: str) -> Operation:
        return self.ask(calls.operation(operation_id))

    def unfinished(self) -> tuple[Operation, ...]:
        return self.ask(calls.operations(status=UNFINISHED, limit=500)).items

    def ended(self, operation: Operation, within: float = PATIENCE) -> Operation:
        def look() -> Operation | None:
            found = self.operation(operation.operation_id)
            return found if found.ended else None

        return until(look, f"the end of {operation.kind} {operation.operation_id}", within)

    def succeeded(self, operation: Operation, within: float = PATIENCE) -> Operation:
        end = self.ended(operation, within)
        assert end.status == "succeeded", f"{end.kind} {end.status}: {end.error}"
        return end

    def child(self, run: Operation, kind: str = "provision") -> Operation:
        """A run's own provision or release."""

        def look() -> Operation | None:
            page = self.ask(calls.operations(kind=kind, limit=500))
            key = _KEYS[kind](OperationId(run.operation_id))
            return next((each for each in page.items if each.idempotency_key == key), None)

        return until(look, f"the {kind} of {run.operation_id}")

    def commands(self, run: Operation) -> tuple[Command, ...]:
        return self.ask(calls.commands(operation_id=self.child(run).operation_id)).items

    def commands_in(self, state: str, run: Operation, count: int = 1) -> tuple[Command, ...]:
        """Until so many of its commands are there."""

        def look() -> tuple[Command, ...] | None:
            found = tuple(each for each in self.commands(run) if each.state == state)
            return found if len(found) >= count else None

        return until(look, f"{count} commands that are {state}")

    def output(self, command: Command) -> bytes:
        return self.ask(calls.output(command.id))

    def nodes(self, *states: str, template: str | None = None) -> tuple[Node, ...]:
        return self.ask(calls.nodes(state=states, template=template, limit=500)).items

    def node(self, node_id: str) -> Node:
        return self.ask(calls.node(node_id))

    def node_in(self, state: str, node_id: str, within: float = PATIENCE) -> Node:
        def look() -> Node | None:
            found = self.node(node_id)
            return found if found.state == state else None

        return until(look, f"node {node_id} to be {state}", within)

    def members(self, operation: Operation) -> list[Node]:
        return [self.node(member.node_id) for member in operation.members]

    def feed(self) -> list[Event]:
        found: list[Event] = []
        cursor: str | None = None
        while True:
            page = self.ask(calls.events(cursor=cursor, limit=1000))
            found += page.items
            if page.next is None or not page.items:
                return found
            cursor = page.next

    # --- the nodes' processes ---------------------------------------------------------------------

    def slots(self) -> list[Slot]:
        return list(Tree(self._machines, self.installation_id).all_slots())

    def body(self, node: Node) -> Body:
        slot = Tree(self._machines, self.installation_id).slot(node.machine_id)
        assert slot is not None

        def look() -> Body | None:
            kept = slot.kept()
            agents = [] if kept is None else [pid for pid in below(kept.pid) if is_agent(pid)]
            return None if kept is None or not agents else Body(slot=slot, keeper=kept.pid, agent=agents[0])

        return until(look, f"the agent of {node.id}")

    def leftovers(self) -> list[str]:
        """Whatever still lives of this data directory's nodes, by its locks, markers and homes."""
        records = [record for slot in self.slots() if (record := slot.record()) is not None]
        found = [f"slot {slot.machine_id} is locked" for slot in self.slots() if slot.locked()]
        marked = carriers({record.marker for record in records})
        found += [f"process {pid} carries {marker}" for pid, marker in marked if running(pid)]
        found += [f"process {pid} lives in our directory" for pid in self._inhabitants()]
        return found

    def _inhabitants(self) -> list[int]:
        """Processes with our directory in their environment or command line, beside the server and us."""
        ours = os.fsencode(self._machines)
        spared = {os.getpid(), self._server.pid if self._server is not None else 0}
        return [pid for pid in pids() if pid not in spared and running(pid) and ours in words_of(pid)]

    # --- the end ----------------------------------------------------------------------------------

    def verify(self) -> Context:
        """Give everything back; then nothing is left, and the history is one that may be."""
        self.reprieve()
        if self._server is None:
            self.start()
        until(lambda: not self.unfinished(), "every operation to end", 100.0)
        self._give_back()
        until(self._empty, "every node to be terminated")
        until(lambda: not self.leftovers(), f"processes to end: {self.leftovers()}", 10.0)
        assert self.stop() == 0
        context = asyncio.run(judged(self.data / "muster.db"))
        records = context.records
        assert (list(records.unfinished), list(records.open), list(records.live)) == ([], [], [])
        unforeseen = [line for line in self.words().splitlines() if "Planted" not in line]
        assert not any("Traceback" in line for line in unforeseen), self.words()
        return context

    def _give_back(self) -> None:
        for template in self.ask(calls.templates()):
            if template.min_idle:
                self.template(template.name, max_nodes=template.max_nodes)
        for node in self.nodes(*(str(state) for state in LIVE)):
            try:
                self.ask(calls.terminate(node.id))
            except Gone:
                continue

    def _empty(self) -> bool:
        return not self.nodes(*(str(state) for state in NodeState if state is not NodeState.TERMINATED))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self.kill()
        records = [record for slot in self.slots() if (record := slot.record()) is not None]
        while kill_carriers({record.marker for record in records}) or self._inhabitants():
            for pid in self._inhabitants():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    chance = Random()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def alive(given: Sequence[int]) -> list[int]:
    """Those of them that still do anything."""
    return [pid for pid in given if running(pid)]


def pids() -> list[int]:
    return sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def below(root: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, int] = {}
    for pid in pids():
        try:
            parents[pid] = int(
                Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[1]
            )
        except OSError:
            continue
    found = [root]
    for pid in found:
        found += [each for each, parent in parents.items() if parent == pid]
    return found


def words_of(pid: int) -> bytes:
    """A process's command line and environment."""
    found = b""
    for name in ("cmdline", "environ"):
        try:
            found += Path(f"/proc/{pid}/{name}").read_bytes() + b"\0"
        except OSError:
            continue
    return found


def is_agent(pid: int) -> bool:
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    entered = len(argv) > 4 and argv[3].endswith(b"sandbox_entry.py") and argv[4] == b"agent"
    return entered or (len(argv) > 2 and argv[1].endswith(b"agent.py") and argv[2] == b"run")


def names(events: Sequence[Event]) -> list[str]:
    return [f"{event.entity}:{event.name}" for event in events]
