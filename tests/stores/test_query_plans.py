"""The statements that run often read an index from one end; none of them walks a table."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.jobs import JobState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind, Status
from muster.domain.template import Reuse
from muster.stores.sql import (
    boots,
    claims,
    commands,
    events,
    failures,
    jobs,
    launches,
    leases,
    messages,
    nodes,
    open_sqlite,
    operations,
    overview,
    pruner,
    vitals,
)
from tests.stores.ids import CountingIds

TABLES = (
    "nodes",
    "n",
    "operations",
    "o",
    "launches",
    "l",
    "liveness",
    "events",
    "failures",
    "jobs",
    "undelivered",
)
FEW = "liveness_offline"
"""An index that holds none but those few that are asked for."""
HOT = {
    "claim": claims.statement(1, Reuse.SAME_OWNER, 0, 1),
    "claim of fresh nodes": claims.statement(1, Reuse.NEVER, 0, 1),
    "claim of a gang from anybody": claims.statement(2, Reuse.ALWAYS, 2, 20),
    "nodes due": nodes.DUE,
    "nodes of an operation": operations.NODES_OF,
    "launches of an operation": launches.OF_OPERATION,
    "last contact of an operation's nodes": operations.NODES_SEEN,
    "an operation with its place in the queue": operations.PLACED,
    "the node of a token": operations.OF_TOKEN,
    "place in the queue": operations.AHEAD,
    "lease": leases.LEASE,
    "lease of what the silent lead in queues": leases.ABANDONED,
    "renew": leases.renewal(20),
    "suspects": vitals.SUSPECTS,
    "stalled": vitals.STALLED,
    "offline": vitals.offline_in((NodeState.IDLE, NodeState.RUNNING)),
    "undiagnosed": boots.UNDIAGNOSED,
    "events": events.FEED,
    "events of an entity": events.FEED_OF_ENTITY,
    "the last events": events.TAIL,
    "the last events of an entity": events.TAIL_OF_ENTITY,
    "nodes by state": nodes.listing(tuple(NodeState), False),
    "nodes by template": nodes.listing(tuple(NodeState), True),
    "operations": operations.listing(tuple(Status), kind=Kind.PROVISION, by_run=False, paged=True),
    "unfinished operations": overview.UNFINISHED,
    "jobs by state": jobs.listing(len(JobState), paged=True),
    "jobs of a run": jobs.OF_RUN,
    "waiting jobs": jobs.WAITING,
    "undelivered messages": messages.ALL,
    "undelivered messages of a webhook": messages.OF_WEBHOOK,
    "operations of a run": operations.listing(tuple(Status), kind=None, by_run=True, paged=False),
}


COMMANDS = {
    "commands of a provision": commands.OF_OPERATION,
    "unfinished commands": commands.UNFINISHED,
    "forsaken commands": commands.UNSERVED,
    "overdue commands": commands.OVERDUE,
    "output": commands.READ,
    "commands": commands.listing(by_run=False, paged=True),
    "commands of a run": commands.listing(by_run=True, paged=False),
    "more commands of a run": commands.listing(by_run=True, paged=True),
}
OVERVIEW = {
    "terminating": (overview.TERMINATING, "nodes_terminating"),
    "handovers": (overview.HANDOVERS, "operations_committed"),
    "failures": (failures.SINCE, "failures_at"),
    "changes": (events.CHANGES, "events_changes"),
    "acts": (events.ACTS, "events_acts"),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "muster.db"
    store = open_sqlite(path, ids=CountingIds(), inline=True)
    connection = sqlite3.connect(path)
    yield connection
    connection.close()
    runner = store._engine._writer  # type: ignore[attr-defined]  # inline, so there is one
    runner.close()


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    params = dict.fromkeys(re.findall(r":(\w+)", sql), 0)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)]


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_scans_no_table(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, HOT[name])
    walked = [step for step in steps if re.match(rf"SCAN ({'|'.join(TABLES)})\b", step) and FEW not in step]
    assert walked == []
    assert any(step.startswith("SEARCH") for step in steps)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_read_in_the_order_of_an_index(connection: sqlite3.Connection, name: str) -> None:
    sql = COMMANDS[name]
    steps = plan(connection, sql)
    assert [step for step in steps if "TEMP B-TREE" in step or re.match(r"SCAN \w+$", step)] == []
    if ":run" in sql:
        assert any("commands_run" in step for step in steps)


@pytest.mark.parametrize("name", OVERVIEW)
def test_a_list_of_the_overview_is_read_from_the_end_of_its_index(
    connection: sqlite3.Connection, name: str
) -> None:
    sql, index = OVERVIEW[name]
    (step,) = plan(connection, sql)
    assert f"USING INDEX {index}" in step


@pytest.mark.parametrize("sql", [overview.CENSUS, overview.HEALTH], ids=["census", "health"])
def test_what_is_counted_is_counted_along_an_index(connection: sqlite3.Connection, sql: str) -> None:
    (step,) = [step for step in plan(connection, sql) if re.match(r"(SEARCH|SCAN) n\b", step)]
    assert step.startswith("SEARCH n USING COVERING INDEX")


def test_forsaken_launches_walk_only_the_open_ones(connection: sqlite3.Connection) -> None:
    steps = plan(connection, launches.TO_CLOSE)
    assert steps[0].startswith("SEARCH l USING INDEX launches_open")
    assert not any(step.startswith("SCAN") for step in steps)


@pytest.mark.parametrize("reuse", list(Reuse))
def test_a_claim_reads_its_pool_in_order_without_sorting_it(
    connection: sqlite3.Connection, reuse: Reuse
) -> None:
    """Nothing is sorted between the search of the pool and the end of its branch: it stops early."""
    steps = plan(connection, claims.statement(1, reuse, 0, 3))
    for place, step in enumerate(steps):
        if step.startswith("SEARCH n USING INDEX"):
            branch = steps[place : steps.index("SCAN b", place)]
            assert "nodes_idle" in step
            assert not any("TEMP B-TREE" in each for each in branch)


CLAIM = claims.statement(1, Reuse.SAME_OWNER, 0, 5)
AT_TWO_SIZES: dict[str, tuple[str, dict[str, object], int]] = {
    "claim": (
        CLAIM,
        dict.fromkeys(re.findall(r":(\w+)", CLAIM), "x")
        | {"template": "web", "revision": 1, "resource_class": "large", "usage0": "on-demand"}
        | {"now": 100.0, "seen_since": 90.0},
        5,
    ),
    "suspects": (
        vitals.SUSPECTS,
        {"stale_before": 80.0, "settled_before": 80.0, "after": "", "limit": 500},
        1,
    ),
    "nodes to forget": (pruner.OLD_NODES, {"before": 50.0, "limit": 1}, 1),
}


@pytest.mark.parametrize("name", AT_TWO_SIZES)
def test_a_statement_looks_at_few_rows_however_many_there_are(tmp_path: Path, name: str) -> None:
    """Counted in steps of SQLite's own machine, so the test is exact on any computer."""
    steps = [_steps(tmp_path / f"{size}.db", size, *AT_TWO_SIZES[name]) for size in (100, 20_000)]
    assert steps[1] < steps[0] * 2


def _steps(path: Path, size: int, sql: str, params: dict[str, object], found: int) -> int:
    """Of one statement in a store with so many idle nodes that are well, as many that are terminated, and one
    that is offline."""
    store = open_sqlite(path, ids=CountingIds(), inline=True)
    store._engine._writer.close()  # type: ignore[attr-defined]  # inline, so there is one
    connection = sqlite3.connect(path, isolation_level=None)
    columns = (
        "id, template, revision, provider, resource_class, usage_class, instance_type, machine_id, state,"
    )
    columns += "version, created_at, entered_at, deadline_source, drain"
    connection.execute("BEGIN")
    for state in ("idle", "terminated"):
        connection.executemany(
            f"""INSERT INTO nodes ({columns})
            VALUES (?, 'web', 1, 'p', 'large', 'on-demand', 'm5', ?, '{state}', 1, 1, ?, '', 0)""",
            [(f"{state}{number}", f"{state}{number}", number) for number in range(size)],
        )
    connection.executemany(
        "INSERT INTO liveness (node_id, seen_at, health) VALUES (?, 100, ?)",
        [(f"idle{number}", "ready" if number else "offline") for number in range(size)],
    )
    connection.execute("COMMIT")
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1

    connection.set_progress_handler(tick, 1)
    assert len(connection.execute(sql, params).fetchall()) == found
    connection.close()
    return ticks


@pytest.mark.parametrize("name", [name for name in HOT if "claim" not in name])
def test_a_hot_statement_is_prepared_once_whatever_it_is_given(
    connection: sqlite3.Connection, name: str
) -> None:
    """SQLite prepares a statement anew if a parameter might meet the condition of a partial index."""
    if ("ENABLE_STMTVTAB",) not in connection.execute("PRAGMA compile_options").fetchall():
        pytest.skip("this SQLite doesn't count: it was built without SQLITE_ENABLE_STMTVTAB")
    names = re.findall(r":(\w+)", HOT[name])
    for given in range(3):
        connection.execute(HOT[name], dict.fromkeys(names, given)).fetchall()
    again = connection.execute("SELECT reprep FROM sqlite_stmt WHERE sql = ?", (HOT[name],)).fetchone()
    assert again == (0,)
