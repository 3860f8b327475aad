"""The records as the event feed tells them: each event's changes folded over the one before.

Owns the judge's copy of the world's records, as plain data, with the few indexes that the checks need. If the
fold and the store ever differ, the feed is not complete.
"""

from collections.abc import Mapping
from typing import Any

from muster.domain.events import Entity, Event
from muster_simulation.invariants.broken import Broken

Record = dict[str, Any]
OPEN = ("planned", "calling")


class Folded:
    def __init__(self) -> None:
        self.nodes: dict[str, Record] = {}
        self.launches: dict[str, Record] = {}
        self.operations: dict[str, Record] = {}
        self.templates: dict[tuple[str, int], Record] = {}
        self.current: dict[str, int] = {}
        """The current revision of each template."""
        self.by_machine: dict[str, str] = {}
        """The newest node of each machine."""
        self.by_token: dict[str, str] = {}
        self.bound: dict[str, dict[str, None]] = {}
        """Nodes by the operation that they are bound to."""
        self.unfinished: dict[str, None] = {}
        """Operations that have not ended."""
        self.waiting: dict[str, dict[str, None]] = {}
        """Operations that stand in the queue of a template."""
        self.live: dict[str, None] = {}
        """Nodes that are not terminated."""
        self.open: dict[str, None] = {}
        """Launches that are open."""
        self.recorded: dict[str, int] = {}
        """Per template: nodes that are not terminated, and what open launches hold beyond them."""

    def fold(self, event: Event) -> tuple[Record | None, Record]:
        """Take an event in. Gives the record before and after; both are the judge's to read."""
        match event.entity:
            case Entity.NODE:
                return self._node(event)
            case Entity.LAUNCH:
                return self._launch(event)
            case Entity.OPERATION:
                return self._operation(event)
            case Entity.TEMPLATE:
                return self._template(event)
            case (
                Entity.INSTALLATION
                | Entity.COMMAND
                | Entity.HEALTH
                | Entity.DIAGNOSIS
                | Entity.CLUSTER
                | Entity.JOB
            ):
                return None, dict(event.changes)

    def spec(self, name: str, revision: int | None = None) -> Record:
        """A template's content; the current revision's unless one is named."""
        found: Record = self.templates[name, revision or self.current[name]]["spec"]
        return found

    def nodes_of(self, operation_id: str) -> list[Record]:
        return [self.nodes[node_id] for node_id in self.bound.get(operation_id, {})]

    @property
    def total(self) -> int:
        return sum(self.recorded.values())

    def _node(self, event: Event) -> tuple[Record | None, Record]:
        before = self.nodes.get(event.entity_id)
        after = _next(before, event)
        if after["version"] != event.version or (
            before is not None and event.version != before["version"] + 1
        ):
            raise Broken(
                "feed_is_complete",
                f"node {event.entity_id}: event {event.name} has version {event.version},"
                f" the record goes from {before and before['version']} to {after['version']}",
            )
        self.nodes[event.entity_id] = after
        self.by_machine[after["machine_id"]] = event.entity_id
        if before is not None and before["operation_id"] not in (None, after["operation_id"]):
            self.bound[before["operation_id"]].pop(event.entity_id, None)
        if after["operation_id"] is not None:
            self.bound.setdefault(after["operation_id"], {})[event.entity_id] = None
        if before is None:
            self._count(after["template"], 1)
            self.live[event.entity_id] = None
        if after["state"] == "terminated":
            self._count(after["template"], -1)
            self.live.pop(event.entity_id, None)
        return before, after

    def _launch(self, event: Event) -> tuple[Record | None, Record]:
        before = self.launches.get(event.entity_id)
        after = _next(before, event)
        if before is not None and event.version != before["version"] + 1:
            raise Broken("feed_is_complete", f"launch {event.entity_id} jumps to version {event.version}")
        self.launches[event.entity_id] = after
        self.by_token[after["token"]] = event.entity_id
        self._count(after["template"], held(after) - (held(before) if before is not None else 0))
        if after["state"] in OPEN:
            self.open[event.entity_id] = None
        else:
            self.open.pop(event.entity_id, None)
        return before, after

    def _operation(self, event: Event) -> tuple[Record | None, Record]:
        before = self.operations.get(event.entity_id)
        after = _next(before, event)
        self.operations[event.entity_id] = after
        if after["ended_at"] is None:
            self.unfinished[event.entity_id] = None
        else:
            self.unfinished.pop(event.entity_id, None)
        if after["queued_since"] is not None and after["ended_at"] is None:
            self.waiting.setdefault(after["template"], {})[event.entity_id] = None
        elif before is not None and before["queued_since"] is not None:
            self.waiting[after["template"]].pop(event.entity_id, None)
        return before, after

    def _template(self, event: Event) -> tuple[Record | None, Record]:
        after: Record = dict(event.changes)
        revision: int = after["revision"]
        before = self.templates.get((event.entity_id, self.current.get(event.entity_id, 0)))
        if before is not None and event.version != before["version"] + 1:
            raise Broken("feed_is_complete", f"template {event.entity_id} jumps to version {event.version}")
        self.templates[event.entity_id, revision] = after
        self.current[event.entity_id] = revision
        return before, after

    def _count(self, template: str, change: int) -> None:
        self.recorded[template] = self.recorded.get(template, 0) + change


def held(launch: Mapping[str, Any]) -> int:
    """Room that a launch holds beyond the nodes that are recorded."""
    return max(0, launch["count"] - launch["adopted"]) if launch["state"] in OPEN else 0


def _next(before: Record | None, event: Event) -> Record:
    if before is None:
        return dict(event.changes)
    return {**before, **event.changes}
