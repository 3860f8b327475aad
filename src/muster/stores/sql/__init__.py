"""The store port in SQL: sync transaction functions, and engines that run them.

Owns the schema and every statement. A transaction function takes a `Tx` and plain values; an engine opens
the transaction, runs it, commits and answers. Nothing here knows the time or draws anything at random.
"""

from muster.stores.sql.store import SqlStore, open_sqlite

__all__ = ["SqlStore", "open_sqlite"]
