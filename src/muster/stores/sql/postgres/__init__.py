"""PostgreSQL under the shared SQL: connections, their errors, and concurrent transactions.

This package needs psycopg, from the extra `postgres`. The statements are those of `muster.stores.sql`. SQLite
has one writer and so gets for free what this package adds. It adds locks (in `Locks`), repeated transactions,
wake-ups between replicas, and an event log that is complete although commits are out of order. See
docs/stores.md.
"""
