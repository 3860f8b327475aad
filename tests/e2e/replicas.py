"""Several real servers on one store and one machine, sharing the engine and the nodes' processes."""

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from muster.client import calls
from muster.client.calls import Call
from muster.client.problems import CannotReach
from muster.domain.errors import NotYet, StoreUnavailable
from muster.stores.dynamodb import Location, open_dynamodb
from muster.stores.sql.postgres.store import open_postgres
from muster.system import SystemClock, SystemIds
from muster_simulation.invariants.context import Context
from tests.e2e.fork_server import ForkServer
from tests.e2e.history import judge
from tests.e2e.site import BRISK, Site, until

T = TypeVar("T")
LEASE = 6.0
"""Short enough to wait for, long enough that a busy machine doesn't lose one by chance."""


class Replicas:
    def __init__(
        self, root: Path, fork_server: ForkServer, store: str, count: int = 3, **options: Any
    ) -> None:
        """More options are for the launchers."""
        self.store = store
        self.ticks = root / "ticks"
        machines = root / "machines"
        self.sites = [
            Site(
                _made(root / f"replica-{number}"),
                fork_server,
                machines=machines,
                **{"lease": LEASE, "ticks": str(self.ticks), **options},
            )
            for number in range(count)
        ]
        for site in self.sites:
            # Each tells its own nodes to begin elsewhere: who loses a server isn't lost with it.
            urls = [each.url for each in self.sites if each is not site] + [site.url]
            site._config.write_text(
                f'[server]\nstore = "{store}"\nstore_connections = 8\nfiles_dir = "{root / "files"}"\n'
                f"public_url = [{', '.join(repr(url) for url in urls)}]\n"
                f'[process]\ncapacity = 40\nisolation = "none"\ndirectory = "{machines}"\n'
                f"{BRISK if store.startswith('postgresql:') else ''}"
            )

    def start(self) -> "Replicas":
        first = self.sites[0].start()
        for site in self.sites[1:]:
            # The store has its admin: the setup of another replica brings that token along.
            site.data.mkdir(mode=0o700, exist_ok=True)
            (site.data / "admin.token").write_text((first.data / "admin.token").read_text())
            site.start()
        first.template()
        return self

    def verify(self) -> None:
        """Give everything back; then nothing is left, and the history is one that may be."""
        running = [site for site in self.sites if site._server is not None]
        last = running[0]
        until(lambda: not last.unfinished(), "every operation to end", 100.0)
        last._give_back()
        until(last._empty, "every node to be terminated", 100.0)
        for site in running[1:]:
            assert site.stop() == 0
        until(lambda: not last.leftovers(), f"processes to end: {last.leftovers()}", 20.0)
        assert last.stop() == 0
        context = asyncio.run(_judged(self.store))
        records = context.records
        assert (list(records.unfinished), list(records.open), list(records.live)) == ([], [], [])
        for site in self.sites:
            assert "Traceback" not in site.words(), site.words()

    def close(self) -> None:
        for site in self.sites:
            site.close()

    def ask(self, call: Call[T], first: int = 0, within: float = 60.0) -> T:
        """Ask one after the other until one answers. Only for what may be repeated."""
        assert call.repeatable
        latest = time.monotonic() + within
        for site in itertools.cycle(self.sites[first:] + self.sites[:first]):
            try:
                return site.client.send(call)
            except (CannotReach, StoreUnavailable, NotYet):
                assert time.monotonic() < latest, "no replica answers"
        raise AssertionError("unreachable")


def taken_over(site: Site, operation_id: str) -> Callable[[], bool]:
    def look() -> bool:
        page = site.ask(calls.events(entity_id=operation_id, limit=1000))
        return any(event.name == "taken_over" for event in page.items)

    return look


async def _judged(address: str) -> Context:
    if address.startswith("postgresql:"):
        return await judge(open_postgres(address, ids=SystemIds(), connections=2))
    return await judge(await open_dynamodb(Location.of(address), ids=SystemIds(), clock=SystemClock()))


def _made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
