"""Stores in files, for tests that ask what a store does and not how it begins.

Such a file has its schema already, and keeps no room for a full disk. Both take most of the time in which a
new store opens. The tests of `tests/stores` open theirs with `open_sqlite`.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from muster.stores.sql import SqlStore, open_sqlite, schema
from muster.stores.sql.sqlite import Writer, connect


@cache
def _empty() -> bytes:
    """The file of a store that has the schema and nothing else, not even a name."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "muster.db"
        writer = Writer(connect(path))
        writer.one(schema.advance)
        writer.close()
        return path.read_bytes()


def open_store(path: Path, **options: Any) -> SqlStore:
    """A store with threads and connections, as in a server. New, if there is none."""
    if not path.exists():
        path.write_bytes(_empty())
    with patch.object(Writer, "reserve"):
        return open_sqlite(path, **options)
