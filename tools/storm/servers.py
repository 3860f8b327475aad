"""The servers under storm, and how to hurt them: one on SQLite, or several on PostgreSQL or DynamoDB."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from bench import postgres as durable
from tests.e2e.fork_server import ForkServer
from tests.e2e.replicas import Replicas
from tests.e2e.site import Body, Site, below, is_agent
from tests.stores import emulator, postgres, watchdog

START_WITHIN = 60.0
STORES = ("sqlite", "postgres", "dynamodb")
_CONFIG = "[limits]\nstale_after = 16\n[process]\ncapacity = 40\n"
_OPTIONS: dict[str, Any] = {"pace": 1.0, "lease": None}
"""Duties and leases at their real pace: a storm measures the product, not a hurried one."""


class Servers:
    def __init__(self, sites: list[Site], group: Site | Replicas, database: Path | None) -> None:
        self.sites = sites
        self._group = group
        self._database = database

    @property
    def urls(self) -> list[str]:
        return [site.url for site in self.sites]

    @property
    def token(self) -> str:
        return (self.sites[0].data / "admin.token").read_text().strip()

    @property
    def has_database(self) -> bool:
        return self._database is not None

    # --- faults -----------------------------------------------------------------------------------

    def kill(self, place: int) -> None:
        """Kill one server with SIGKILL and start it again, as a supervisor would: until it starts."""
        site = self.sites[place]
        site.kill()
        latest = time.monotonic() + START_WITHIN
        while not site.try_start():
            if time.monotonic() > latest:
                raise TimeoutError(
                    f"{site.url} did not start within {START_WITHIN:g} s: {site.words()[-2000:]}"
                )

    def freeze(self, place: int, seconds: float, over: threading.Event) -> None:
        """Stop one server with SIGSTOP for so long, or until the storm is over."""
        self.sites[place].send(signal.SIGSTOP)
        try:
            over.wait(seconds)
        finally:
            self.sites[place].send(signal.SIGCONT)

    def crash_database(self) -> None:
        """Crash PostgreSQL and start it again. Every commit that it acknowledged survives."""
        folder = self._database
        if folder is None:
            return
        watchdog.ended(_postmaster(folder))
        subprocess.run(  # noqa: S603 — the tests' own database
            [postgres.program("pg_ctl"), "restart", "-D", folder, "-m", "immediate", "-w"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            user=folder.stat().st_uid,
        )
        watchdog.ends_with_us(_postmaster(folder), folder)

    # --- the process table ------------------------------------------------------------------------

    def machines(self) -> list[str]:
        """Return ids of the machines whose keeper lives, by the locks that the kernel holds for them."""
        return sorted(slot.machine_id for slot in self.sites[0].slots() if slot.locked())

    def bodies(self) -> list[Body]:
        """Return the nodes that have an agent now."""
        found: list[Body] = []
        for slot in self.sites[0].slots():
            kept = slot.kept() if slot.locked() else None
            agents = [] if kept is None else [pid for pid in below(kept.pid) if is_agent(pid)]
            if kept is not None and agents:
                found.append(Body(slot=slot, keeper=kept.pid, agent=agents[0]))
        return found

    # --- the end ----------------------------------------------------------------------------------

    def recorded(self) -> list[str]:
        """Return ids of the machines that exist by their record."""
        states = ("created", "idle", "claimed", "running", "releasing", "failed", "terminating")
        return sorted(node.machine_id for node in self.sites[0].nodes(*states))

    def verify(self) -> None:
        """Give all nodes back. Then nothing is left, and the feed rebuilds every record."""
        self._group.verify()


@contextmanager
def started(root: Path, *, store: str, replicas: int) -> Iterator[Servers]:
    with ExitStack() as stack:
        fork_server = stack.enter_context(ForkServer())
        servers = _made(root, fork_server, stack, store, replicas)
        for site in servers.sites:
            stack.callback(site.close)
        servers._group.start()
        yield servers


def _made(root: Path, fork_server: ForkServer, stack: ExitStack, store: str, replicas: int) -> Servers:
    if store == "sqlite":
        site = Site(root, fork_server, config=_CONFIG, **_OPTIONS)
        return Servers([site], site, None)
    if store == "dynamodb":
        address, database = emulator.address(), None
    else:
        address = durable.database(stack.enter_context(durable.server()), "storm")
        database = Path(str(conninfo_to_dict(address)["host"]))
    group = Replicas(root, fork_server, address, replicas, **_OPTIONS)
    return Servers(group.sites, group, database)


def _postmaster(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text().split(maxsplit=1)[0])
