"""Which engine an address names, and what a server needs to know of the one that it got.

Owns the addresses: none is SQLite in a file; `postgresql://` is PostgreSQL and `dynamodb://` is DynamoDB with
SQS, whose drivers are extras.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path

from muster.domain.errors import StoreUnavailable
from muster.ports.clock import Clock
from muster.ports.commits import AfterCommit, Written
from muster.ports.ids import Ids
from muster.ports.wakeups import Wakeups
from muster.stores.announcements import announcer
from muster.stores.dynamodb import SCHEME, DynamoStore, Location, open_dynamodb
from muster.stores.sql import SqlStore, open_sqlite, sqlite
from muster.stores.sql.tx import Report
from muster.stores.wakeups import LocalWakeups

LOOK_EVERY = 2.0
READABLE_WITHIN = 4.0
"""PostgreSQL shows an event once no older transaction is open that may write an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    store: SqlStore | DynamoStore
    wakeups: Wakeups
    shared: bool
    """Other replicas may use it at the same time."""
    priced: bool = False
    """The engine bills by write."""
    look_every: float = inf
    """Seconds after which a waiting caller reads by itself: writes of other replicas cause no wake-up
    here."""
    readable_within: float = 0.0
    """Seconds for which an event may not be readable yet after its wake-up came."""
    close: Callable[[], Awaitable[None]]


async def open_store(
    address: str | None,
    file: Path,
    *,
    ids: Ids,
    clock: Clock,
    connections: int,
    cache_mib: int,
    keep: float,
    saw: AfterCommit,
) -> Opened:
    """Open the store that an address names. `connections`: of PostgreSQL. `cache_mib`: of SQLite.

    `saw` is called with every event written through it. `keep`: how long events stay where the store itself
    deletes them.
    """
    if address is None:
        return _sqlite(file, ids, saw, cache_mib=cache_mib)
    if address.startswith(f"{SCHEME}://"):
        return await _dynamodb(Location.of(address), ids=ids, clock=clock, keep=keep, saw=saw)
    require_driver()
    return await _postgres(address, ids, connections, saw)


def installation_of(file: Path) -> str | None:
    """Return the installation of a SQLite file, or None without one. Raises StoreUnavailable."""
    return sqlite.installation_of(file)


def look(address: str | None, file: Path) -> Report:
    """Report what is there, without a change. Raises StoreUnavailable."""
    if address is None:
        return sqlite.look(file)
    require_driver()
    from muster.stores.sql.postgres import store  # noqa: PLC0415 — an extra
    from muster.stores.sql.postgres.connections import ConnectionFactory  # noqa: PLC0415

    return store.look(ConnectionFactory(address))


async def create(address: str | None, file: Path, *, ids: Ids) -> None:
    """Make what is missing: the database, its schema, the installation's name. Repeating it is harmless."""
    if address is None:
        await open_sqlite(file, ids=ids).close()
        return
    require_driver()
    from muster.stores.sql.postgres import store  # noqa: PLC0415 — an extra
    from muster.stores.sql.postgres.connections import ConnectionFactory  # noqa: PLC0415

    store.create_database(ConnectionFactory(address))
    store.prepare(ConnectionFactory(address), ids)


def require_driver() -> None:
    if find_spec("psycopg") is None:
        raise StoreUnavailable(
            "cannot use PostgreSQL: its driver is not installed; run: pip install 'muster-compute[postgres]'"
        )


def _sqlite(path: Path, ids: Ids, saw: AfterCommit, *, cache_mib: int) -> Opened:
    wakeups = LocalWakeups()
    store = open_sqlite(path, ids=ids, after_commit=after_commit(wakeups, saw), cache_mib=cache_mib)
    return Opened(store=store, wakeups=wakeups, shared=False, close=store.close)


async def _postgres(address: str, ids: Ids, connections: int, saw: AfterCommit) -> Opened:
    from muster.stores.sql.postgres.connections import ConnectionFactory  # noqa: PLC0415 — an extra
    from muster.stores.sql.postgres.store import open_postgres  # noqa: PLC0415
    from muster.stores.sql.postgres.wakeups import SharedWakeups  # noqa: PLC0415

    wakeups = SharedWakeups(ConnectionFactory(address), name=ids.new("peer"))
    store = open_postgres(address, ids=ids, connections=connections, after_commit=after_commit(wakeups, saw))
    wakeups.start()

    async def close() -> None:
        await store.close()
        await wakeups.close()

    return Opened(store=store, wakeups=wakeups, shared=True, readable_within=READABLE_WITHIN, close=close)


async def _dynamodb(location: Location, *, ids: Ids, clock: Clock, keep: float, saw: AfterCommit) -> Opened:
    wakeups = LocalWakeups()  # what others write is found by looking
    committed = after_commit(wakeups, saw)
    store = await open_dynamodb(location, ids=ids, clock=clock, after_commit=committed, keep=keep)
    return Opened(
        store=store, wakeups=wakeups, shared=True, priced=True, look_every=LOOK_EVERY, close=store.close
    )


def after_commit(wakeups: Wakeups, saw: AfterCommit) -> AfterCommit:
    """Announce a commit."""
    announce = announcer(wakeups)

    def committed(written: Sequence[Written]) -> None:
        announce(written)
        saw(written)

    return committed
