"""Make very many nodes like the few that are there, for benchmarks whose set-up would take too long.

SQLite itself copies rows in one transaction. The pattern is a hundred nodes that were written through the
port. Only what status and sweep read is copied, and no event tells of it. A benchmark that needs a right feed
or right counters fills a pool (`pool`).
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from muster.domain.ids import NodeId
from muster.stores.sql.sqlite import connect

_NAMED_BY = {"nodes": ("id", "machine_id"), "liveness": ("node_id",)}


def multiply(path: Path, times: int) -> list[NodeId]:
    """Copy the nodes of a store that no process has open; return all of their ids."""
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table, names in _NAMED_BY.items():
            columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
            copied = [f"{name} || '-' || n" if name in names else name for name in columns]
            connection.execute(
                f"""
                WITH RECURSIVE copies (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM copies WHERE n < :times)
                INSERT INTO {table} ({", ".join(columns)})
                SELECT {", ".join(copied)} FROM {table} CROSS JOIN copies WHERE n <= :times
                """,
                {"times": times},
            )
        connection.execute("COMMIT")
        return [NodeId(row[0]) for row in connection.execute("SELECT node_id FROM liveness ORDER BY node_id")]


def date(path: Path, deadlines: Mapping[float, Sequence[NodeId]]) -> None:
    """Give these nodes these deadlines."""
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for at, ids in deadlines.items():
            connection.executemany(
                "UPDATE nodes SET deadline_at = ? WHERE id = ?", [(at, each) for each in ids]
            )
        connection.execute("COMMIT")
