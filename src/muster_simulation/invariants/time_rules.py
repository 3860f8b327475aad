"""Check promises about time: operations end and nodes leave their states by their deadlines, plus a bound.

Only calm time counts: a healthy replica was up and nothing had just crashed. A deadline that passes while no
replica is there counts later.
"""

from muster.domain.node import HOLD
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context

OPERATION_BOUND = 300.0
NODE_BOUND = 300.0
LAUNCH_BOUND = 900.0
"""A launch whose operation has ended is closed within this: the window, a call, and the looks between."""
_UNJUDGED = ("created", "claimed")


class TimeRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._overdue: dict[str, float] = {}

    def tick(self, seconds: float, *, calm: bool) -> None:
        if not calm:
            return
        now = self._at.now()
        records = self._at.records
        late: dict[str, float] = {}
        for operation_id in records.unfinished:
            operation = records.operations[operation_id]
            if operation["deadline_at"] < now:
                self._charge(
                    late,
                    operation_id,
                    seconds,
                    bound=OPERATION_BOUND,
                    name="every_operation_ends",
                    record=operation,
                )
        for node_id in records.live:
            node = records.nodes[node_id]
            deadline = node["deadline_at"]
            if deadline is not None and deadline < now and not self._committed(node):
                name = "a_held_node_ends" if node["deadline_source"] == HOLD else "every_state_ends"
                self._charge(late, node_id, seconds, bound=NODE_BOUND, name=name, record=node)
        for launch_id in records.open:
            launch = records.launches[launch_id]
            operation = records.operations[launch["operation_id"]]
            if operation["ended_at"] is not None:
                self._charge(
                    late, launch_id, seconds, bound=LAUNCH_BOUND, name="every_launch_is_closed", record=launch
                )
        self._overdue = late

    def _charge(
        self, late: dict[str, float], key: str, seconds: float, *, bound: float, name: str, record: object
    ) -> None:
        late[key] = self._overdue.get(key, 0.0) + seconds
        if late[key] > bound:
            raise Broken(name, f"overdue for {late[key]:.0f} s of calm: {record}")

    def _committed(self, node: dict[str, object]) -> bool:
        if node["state"] not in _UNJUDGED:
            return False
        operation = self._at.records.operations.get(str(node["operation_id"]))
        return operation is not None and operation["committed_at"] is not None
