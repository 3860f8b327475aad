"""Give pages that pruning freed back to the disk, a small part at a time.

This module owns how much goes at once and how often. Each part is a transaction of its own on the writer's
connection. It is so small that a waiting write doesn't notice. The reserve's pages stay.
"""

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

from muster.stores.sql.disk_reserve import SIZE

logger = logging.getLogger(__name__)

BITE = 256
"""Pages that go at once: 1 MiB, a few milliseconds."""
EVERY = 0.25
"""Seconds between two bites."""
KEPT = 2 * SIZE
"""Bytes of free pages that stay: the reserve, and room for what is written next."""
CONVERTED_MOST = 256 * 1024 * 1024
"""A file from before this module is rewritten once, at a start, if it is no larger: that takes seconds."""
_INCREMENTAL = 2


class Vacuum:
    """Of one connection, which is the only one that writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (self._page,) = connection.execute("PRAGMA page_size").fetchone()
        self._due = 0.0

    def step(self) -> bool:
        """Give at most a bite back, if it is time. Outside of a transaction. Never raises. True: it did."""
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + EVERY
        with contextlib.suppress(sqlite3.Error):
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            more = min(BITE, free - KEPT // self._page)
            if more > 0:
                # A script: `execute` stops at the first of its rows, each of which frees a page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({more})")
                return True
        return False


def convert(connection: sqlite3.Connection, path: Path) -> None:
    """Let a file that was made without this begin to shrink. Needs room for a copy of it."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == _INCREMENTAL:
        return
    size, disk = path.stat().st_size, os.statvfs(path.parent)
    if size > CONVERTED_MOST or disk.f_bavail * disk.f_frsize < 3 * size + SIZE:
        logger.warning(
            "%s never shrinks; with the server stopped, run: sqlite3 %s"
            " 'PRAGMA auto_vacuum = INCREMENTAL; VACUUM'",
            path,
            path,
        )
        return
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("VACUUM")
