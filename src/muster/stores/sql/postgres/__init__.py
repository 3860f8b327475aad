"""PostgreSQL under the shared SQL: connections, their troubles, and what side by side transactions need.

Needs psycopg, from the extra `postgres`. The statements are those of SQLite (muster.stores.sql); here is what
that engine gets for free by having one writer: locks (in `Locks`), repeated transactions, an event log that
is complete although commits are not in order, and wake-ups between replicas. See docs/stores.md.
"""
