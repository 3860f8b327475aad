"""Launch records: each one is a provider call to be, and the room it holds under the caps.

This module owns their statements. The room of a launch is taken at its insert. It moves only with the
launch's own guarded write, by what was adopted and what it still holds.
"""

from collections.abc import Sequence

from muster.domain import events as drafts
from muster.domain.ids import LaunchId, OperationId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Fence
from muster.stores.records import launch_written_at
from muster.stores.sql import counters, events, guards, nodes, templates
from muster.stores.sql.rows import LAUNCH
from muster.stores.sql.tx import Tx, Value

_BY_TOKEN = f"SELECT {LAUNCH.select} FROM launches WHERE token = :token"
# Ids of one operation differ by their ordinal alone, so the shorter one is the lower one.
OF_OPERATION = (
    f"SELECT {LAUNCH.select} FROM launches WHERE operation_id = :id ORDER BY length(id), id LIMIT 1000"
)
TO_CLOSE = f"""
    SELECT {LAUNCH.qualified("l")} FROM launches AS l
    WHERE l.closed_at IS NULL AND (l.created_at, l.id) > (:created_at, :id)
      AND NOT EXISTS (SELECT 1 FROM operations AS o WHERE o.id = l.operation_id AND o.ended_at IS NULL)
    ORDER BY l.created_at, l.id LIMIT :limit
"""


def get(tx: Tx, launch_id: LaunchId) -> Launch:
    return LAUNCH.get(tx, launch_id)


def by_token(tx: Tx, token: str) -> Launch | None:
    return LAUNCH.first(tx.execute(_BY_TOKEN, {"token": token}))


def of_operation(tx: Tx, operation_id: OperationId) -> tuple[Launch, ...]:
    return tuple(LAUNCH.decode(row) for row in tx.execute(OF_OPERATION, {"id": operation_id}))


def to_close(tx: Tx, *, limit: int, after: Launch | None = None) -> Sequence[Launch]:
    place: tuple[float, str] = (-1.0, "") if after is None else (after.created_at, after.id)
    params: dict[str, Value] = {"limit": limit, "created_at": place[0], "id": place[1]}
    return LAUNCH.all(tx.execute(TO_CLOSE, params))


def reserve(tx: Tx, launch: Launch, *, cap: int, total_cap: int, fence: Fence) -> Launch:
    guards.check_fence(tx, fence)
    there = LAUNCH.find(tx, launch.id)
    if there is not None:
        return there
    guards.check_not_paused(tx, launch.template)
    stored = templates.caps(tx, launch.template)
    counters.take(
        tx,
        launch.template,
        launch.held,
        cap=cap if stored.template is None else min(cap, stored.template),
        total_cap=min(total_cap, stored.total),
    )
    tx.change(LAUNCH.insert, LAUNCH.params(launch))
    _log(tx, None, launch, at=launch.created_at)
    return launch


def write(tx: Tx, before: Launch, after: Launch, *, fence: Fence | None) -> Launch:
    return settle(tx, before, after, (), fence=fence, now=launch_written_at(after))


def settle(
    tx: Tx, before: Launch, after: Launch, machines: Sequence[Node], *, fence: Fence | None, now: float
) -> Launch:
    guards.check_fence(tx, fence)
    guards.update(tx, LAUNCH, before, after)
    adopted = sum(nodes.adopt(tx, node, now=now) for node in machines)
    counters.add(tx, after.template, adopted + after.held - before.held)
    _log(tx, before, after, at=now)
    return after


def _log(tx: Tx, before: Launch | None, after: Launch, *, at: float) -> None:
    events.append(tx, drafts.of_launch(before, after), at=at, operations=(after.operation_id,), record=after)
