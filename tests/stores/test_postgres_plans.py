"""The statements that run often read an index from one end on PostgreSQL, too: asked of a store that is full.

Its planner goes by what it counted, so there are enough rows to make a walk through a table expensive. There
are 20,000 nodes (most of them terminated), 20,000 operations (few of them running), 20,000 jobs, 20,000
undelivered messages and 40,000 events.
"""

import re
from collections.abc import Iterator

import psycopg
import pytest

from muster.domain.template import Reuse
from muster.stores.sql import claims, events, launches
from muster.stores.sql.postgres.connections import Connection, ConnectionFactory
from muster.stores.sql.postgres.session import SIDE_BY_SIDE, numbered, values
from muster.stores.sql.tx import Value
from tests.stores import postgres
from tests.stores.test_query_plans import HOT, OVERVIEW

FULL = """
    INSERT INTO nodes (id, template, revision, provider, resource_class, usage_class, instance_type,
        machine_id, state, version, created_at, entered_at, deadline_at, deadline_source, operation_id,
        last_owner, drain, detail, phase, step, address) SELECT 'node-' || n, 't' || n % 20, 1,
        'process', 'small', 'on-demand', 'any', 'm-' || n, CASE WHEN n % 20 = 0 THEN 'idle' WHEN n % 20
        < 3 THEN 'running' ELSE 'terminated' END, 4, n, n, CASE WHEN n % 20 < 3 THEN 30000 + n END,
        'default', CASE WHEN n % 20 IN (1, 2) THEN 'op-' || n END, CASE WHEN n % 3 = 0 THEN 'acme' END,
        0, '', '', '', '' FROM generate_series(1, 20000) AS n;
    INSERT INTO liveness (node_id, seen_at, boot_id, said_reason, activity, probe_failures, health,
        health_reason, health_source, health_since, health_version, booting, news) SELECT id, 20000,
        'b', '', 0, 0, 'healthy', '', '', 1, 1, 0, 0 FROM nodes WHERE state <> 'terminated';
    INSERT INTO operations (id, kind, request, template, run, status, version, created_at, updated_at,
        ended_at, deadline_at, deadline_source, members, result, lease_until, epoch, warm) SELECT 'op-'
        || n, 'provision', '{}', 't' || n % 20, 'run-' || n, CASE WHEN n % 500 = 0 THEN 'running' ELSE
        'succeeded' END, 3, n, n, CASE WHEN n % 500 > 0 THEN n + 1 END, n + 900, 'default', '[]', '{}',
        n + 60, 1, 0 FROM generate_series(1, 20000) AS n;
    INSERT INTO launches (id, operation_id, token, template, revision, provider, resource_class,
        usage_class, instance_types, count, state, version, created_at, calls, adopted, closed_at,
        message) SELECT 'op-' || n || '.1', 'op-' || n, 'tok-' || n, 't1', 1, 'process', 'small',
        'on-demand', '[]', 1, CASE WHEN n % 500 = 0 THEN 'calling' ELSE 'settled' END, 3, n, 1, 1, CASE
        WHEN n % 500 > 0 THEN n + 1 END, '' FROM generate_series(1, 20000) AS n;
    INSERT INTO events (at, entity, entity_id, version, name, changes, detail, actor) SELECT n, 'node',
        'node-' || n % 20000, 1, 'adopt', '{}', '', CASE WHEN n % 100 = 0 THEN 'somebody' ELSE '' END
        FROM generate_series(1, 40000) AS n;
    INSERT INTO jobs (id, source, state, version, created_at, updated_at, repository, run, name, workflow,
        event, labels, queue, runner, tries, detail, interrupted) SELECT 'job-' || n, 'github', CASE WHEN
        n % 500 = 0 THEN 'queued' WHEN n % 500 = 1 THEN 'running' ELSE 'completed' END, 1, n, n, 'acme/web',
        'run-' || n, 'build', 'ci', 'push', '[]', '', '', 0, '', 0 FROM generate_series(1, 20000) AS n;
    INSERT INTO undelivered (id, version, webhook, event, since, tries, problem) SELECT 'message-' || n, 1,
        'webhook-' || n % 20, '{}', n, 1, '' FROM generate_series(1, 20000) AS n;
    ANALYZE;
"""
TYPICAL: dict[str, Value] = {
    "limit": 100,
    "now": 25_000.0,
    "until": 25_060.0,
    "seen_since": 19_000.0,
    "absent_since": 24_992.0,
    "gone_since": 24_985.0,
    "revision": 1,
    "template": "t0",
    "resource_class": "small",
    "id": "op-500",
    "run": "run-7",
    "entity_id": "node-7",
    "kind": "provision",
    "repository": "acme/web",
    "created_at": 15_000.0,
    "since": 19_000.0,
    "before": 10_000.0,
    "settled_before": 10_000.0,
    "stale_before": 10_000.0,
    "seq": 39_000,
    "upto": 10**9,
    "after": "node-5",
    "owner": "acme",
    "usage0": "on-demand",
    "usage1": "spot",
    "type0": "a%",
    "type1": "b%",
}
NUMBERED: dict[str, tuple[Value, ...]] = {
    "state": ("idle", "running", "created"),
    "status": ("queued", "running", "succeeded", "failed", "cancelled"),
    "epoch": (1,),
    "deadline": (30_000.0,),
}
"""By the word before the number; others are texts."""
LOCKED = {
    "claim, side by side": claims.statement(1, Reuse.SAME_OWNER, 0, 1, SIDE_BY_SIDE.skip),
    "claims of a group": claims.statement(1, Reuse.SAME_OWNER, 0, 16, SIDE_BY_SIDE.skip),
    "forsaken launches": launches.TO_CLOSE,
    "the last number": events.LAST,
}
STATEMENTS = HOT | LOCKED | {name: OVERVIEW[name][0] for name in ("terminating", "handovers", "changes")}


@pytest.fixture(scope="module")
def full() -> Iterator[Connection]:
    address = postgres.fresh()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(FULL)
    with ConnectionFactory(address).connect() as connection:
        yield connection


def plan(full: Connection, sql: str) -> str:
    text, names = numbered(sql)
    rows = full.execute(f"EXPLAIN {text}", values(names, {name: _typical(name) for name in names})).fetchall()
    return "\n".join(str(row[0]) for row in rows)


def _typical(name: str) -> Value:
    word, number = re.fullmatch(r"(\w*?)(\d*)", name).groups()  # type: ignore[union-attr]  # anything fits
    if name not in TYPICAL and word in NUMBERED:
        return NUMBERED[word][int(number) % len(NUMBERED[word])]
    return TYPICAL.get(name, f"{word}-{number}")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_hot_statement_walks_no_table(full: Connection, name: str) -> None:
    found = plan(full, STATEMENTS[name])
    walked = re.findall(r"Seq Scan on (nodes|operations|events|liveness|launches|undelivered)\b", found)
    assert walked == [], found
    assert "Index" in found


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claim, side by side", "nodes_idle"),
        ("claims of a group", "nodes_idle"),
        ("nodes due", "nodes_due"),
        ("lease", "operations_lapsed"),
        ("events", "events_pkey"),
        ("events of an entity", "events_entity"),
        ("suspects", "liveness"),
    ],
)
def test_it_reads_the_index_that_was_made_for_it(full: Connection, name: str, index: str) -> None:
    assert f"using {index}" in plan(full, STATEMENTS[name])


@pytest.mark.parametrize("name", ["claim, side by side", "claims of a group"])
def test_a_claim_sorts_no_pool(full: Connection, name: str) -> None:
    """Each branch stops at the index's best end; what is sorted is what the branches gave."""
    found = plan(full, LOCKED[name]).splitlines()
    scans = [place for place, line in enumerate(found) if "using nodes_idle" in line]
    assert len(scans) == 2
    for place in scans:
        depth = len(found[place]) - len(found[place].lstrip())
        above = [line for line in found[:place] if len(line) - len(line.lstrip()) < depth][-3:]
        assert not any("Sort" in line for line in above), "\n".join(found)
