"""Open a store in a SQLite file: check it, migrate it, name it, and start its threads.

This module owns the order. A start on a full disk first gives up the spare room. A damaged file is found
before anything is written to it. Every error names the file.
"""

import sqlite3
from functools import cache
from pathlib import Path

from muster.domain.errors import InvalidRequest, StoreUnavailable
from muster.domain.ids import InstallationId
from muster.ports.commits import AfterCommit
from muster.ports.ids import Ids
from muster.stores.sql import schema, sqlite, templates
from muster.stores.sql.disk_reserve import give_up_spare
from muster.stores.sql.engines import InlineEngine, ThreadedEngine
from muster.stores.sql.store import SqlStore
from muster.stores.sql.vacuum import convert

CACHE_MIB = 64
CLAIMING = 2
"""Groups of claims of one demand: one is written, and the next one waits for the writer."""
CONNECTIONS = 3
"""One writes, one reads, one looks up a few rows at a time on the loop's own thread."""


def _quiet(_written: object) -> None:
    """Ignore the write; the default hook."""


def open_sqlite(
    path: str | Path,
    *,
    ids: Ids,
    inline: bool = False,
    after_commit: AfterCommit = _quiet,
    cache_mib: int = CACHE_MIB,
) -> SqlStore:
    """Open (or make) a store in a file. `cache_mib`: what its connections may keep of the file in memory, all
    together. Raises StoreUnavailable, saying what is wrong with it."""
    if not inline and str(path) == ":memory:":
        raise InvalidRequest("path", path, "must be a file: the reader's connection would see another memory")
    cache = cache_mib * 1024 // CONNECTIONS
    try:
        if inline:
            writer = _opened(path, ids, cache=cache)
            return SqlStore(InlineEngine(writer, writer.reader(), after_commit))
        give_up_spare(Path(path))
        writer = _opened(path, ids, cache=cache, file=Path(path))
        writer.reserve(path)
        try:
            reader = sqlite.Reader(sqlite.connect(path, readonly=True, cache_kib=cache))
            near = sqlite.Reader(sqlite.connect(path, readonly=True, cache_kib=cache, patience=0.0))
        except BaseException:
            writer.close()
            raise
    except Exception as error:
        raise _naming(path, sqlite.translate_error(error)) from error
    return SqlStore(ThreadedEngine(writer, reader, after_commit, near=near), groups=CLAIMING)


def _naming(path: str | Path, error: BaseException) -> BaseException:
    if not isinstance(error, StoreUnavailable) or str(path) in str(error):
        return error
    return StoreUnavailable(str(error).replace("the store", f"the store {path}", 1), why=error.why)


@cache
def _empty() -> sqlite3.Connection:
    """Return a store in memory that has the schema and nothing else: others are copied from it."""
    connection = sqlite.connect(":memory:")
    _migrate(sqlite.Writer(connection))
    return connection


def _migrate(writer: sqlite.Writer) -> None:
    while writer.one(schema.advance)[0]:
        pass


def _opened(path: str | Path, ids: Ids, *, cache: int, file: Path | None = None) -> sqlite.Writer:
    """Open the database. `file`: check it, and make it one that can shrink."""
    connection = sqlite.connect(path, cache_kib=cache)
    writer = sqlite.Writer(connection)
    try:
        if str(path) == ":memory:":
            _empty().backup(connection)
        if file is not None:
            sqlite.check(connection, file)
            convert(connection, file)
        _migrate(writer)
        writer.one(lambda tx: templates.name_installation(tx, InstallationId(ids.new("inst"))))
    except BaseException:
        writer.close()
        raise
    return writer
