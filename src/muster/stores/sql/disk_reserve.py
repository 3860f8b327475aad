"""Reserve room in a SQLite store's own files, so that machines can be given back on a full disk.

This module owns the size of the reserve, and the decision that the disk is short. The reserve is free pages
inside the database file and a write-ahead log of some length. Both are on the disk already. Writes use the
free pages, and they are filled up again while the disk has room. Meanwhile new work is refused, so that the
end of present work has room. A start on a full disk needs a new log, so it deletes a spare file beside the
database.
"""

import contextlib
import logging
import os
import sqlite3
from pathlib import Path

from muster.stores.sql.tx import FULL

logger = logging.getLogger(__name__)

SIZE = 8 * 1024 * 1024
"""Thousands of writes: enough to give back whatever a machine holds."""
SHORT = 1024 * 1024
"""Less than this free, and the disk counts as full."""
_AMPLE = 3 * SIZE
"""Less than this free, and the reserve isn't filled up: others need the room now."""


LOOK_EVERY = 8
"""One commit of so many looks: that takes a tenth of a commit's time, and half of it isn't gone so soon."""


SPARE = 4 * 1024 * 1024
"""Enough for a new log, its map, and what a start writes."""


def spare_of(path: str | Path) -> Path:
    return Path(f"{path}-spare")


def give_up_spare(path: Path) -> None:
    """Delete the spare file if the disk is full, before the database is opened. Never raises."""
    with contextlib.suppress(OSError):
        if _free(path) < SHORT:
            spare_of(path).unlink()
            logger.warning("the disk of %s is full, so the spare room beside it is used: %s", path, FULL)


def _free(path: Path) -> int:
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else _AMPLE  # some file systems don't say


class Reserve:
    """Of one connection, which is the only one that writes."""

    def __init__(self, connection: sqlite3.Connection, path: str | Path) -> None:
        self._connection = connection
        self._path = Path(path)
        self._log = Path(f"{path}-wal")
        (self._page,) = connection.execute("PRAGMA page_size").fetchone()
        self._calls = 0

    def keep(self) -> None:
        """Fill it up, if it is half empty and the disk has room. Outside of a transaction. Never raises."""
        self._calls += 1
        if self._calls % LOOK_EVERY != 1:
            return
        with contextlib.suppress(OSError, sqlite3.Error):
            if self._calls == 1:  # a server may have been killed while it filled it up
                self._connection.execute("DROP TABLE IF EXISTS ballast")
            (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if self._free() >= _AMPLE:
                self._keep_spare()
            full = pages * self._page >= SIZE // 2 and self._log.stat().st_size >= SIZE // 2
            if full or self._free() < _AMPLE:
                return
            # Each by itself: pages that are freed by the transaction that took them are never written.
            self._connection.execute("CREATE TABLE ballast (room BLOB)")
            self._connection.execute("INSERT INTO ballast VALUES (zeroblob(:size))", {"size": SIZE})
            self._connection.execute("DROP TABLE ballast")

    def _keep_spare(self) -> None:
        spare = spare_of(self._path)
        if spare.exists() and spare.stat().st_size == SPARE:
            return
        descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(bytes(SPARE))  # what isn't written whole is written again later

    def short(self) -> bool:
        try:
            return self._free() < SHORT
        except OSError:
            return False  # the next write reports what is wrong

    def _free(self) -> int:
        return _free(self._path)
