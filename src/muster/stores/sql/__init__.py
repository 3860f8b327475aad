"""The store port in SQL: sync transaction functions, and engines that run them.

Owns the schema and every statement. A transaction function takes a `Tx` and plain values; an engine opens
the transaction, runs it, commits and answers. Nothing here knows the time or draws anything at random.
"""

from muster.stores.sql.sqlite_store import open_sqlite
from muster.stores.sql.store import SqlStore

__all__ = ["SqlStore", "open_sqlite"]
