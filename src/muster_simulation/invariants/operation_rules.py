"""Promises about operations: all or nothing, nothing goes back, nothing is lost, keys are kept."""

from typing import Any

from muster.domain.events import Event
from muster.domain.matching import type_matches
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record
from muster_simulation.invariants.health_rules import SILENCE


class OperationRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._keys: dict[str, str] = {}
        self._revision_at_start: dict[str, int] = {}
        self._acknowledged: dict[str, str] = {}

    def check(self, event: Event, before: Record | None, after: Record) -> None:
        if before is None:
            self._submitted(after)
        else:
            self._onward(event, before, after)
        match event.name:
            case "queued":
                self._queued(after)
            case "resumed":
                self._resumed(after)
            case "committed":
                self._committed(after)
            case "ended":
                self._ended(after)
            case _:
                pass

    def acknowledged(self, operation_id: str, key: str | None) -> None:
        """A caller was told that this operation exists."""
        if operation_id not in self._at.records.operations:
            raise Broken(
                "no_acknowledged_request_is_lost", f"{operation_id} was acknowledged and isn't stored"
            )
        if key is not None and self._acknowledged.setdefault(key, operation_id) != operation_id:
            raise Broken(
                "one_operation_per_key", f"{key} gave {self._acknowledged[key]} and then {operation_id}"
            )

    def _submitted(self, after: Record) -> None:
        key = after["idempotency_key"]
        if key is not None and self._keys.setdefault(key, after["id"]) != after["id"]:
            raise Broken("one_operation_per_key", f"{key} made {self._keys[key]} and {after['id']}")
        if after["template"] is not None:
            self._revision_at_start[after["id"]] = self._at.records.current[after["template"]]
        if after["kind"] == "provision":
            timeout = after["request"]["timeout"]
            if timeout is not None and after["deadline_at"] > after["created_at"] + timeout:
                raise Broken("explicit_timeouts_are_hard", f"{after['id']} may take longer than {timeout} s")

    def _onward(self, event: Event, before: Record, after: Record) -> None:
        if before["ended_at"] is not None:
            raise Broken("ended_is_ended", f"{after['id']} had {before['status']}, then {event.name}")
        old, new = before["progress"], after["progress"]
        if old is not None and (new is None or new["step"] < old["step"] or new["percent"] < old["percent"]):
            raise Broken("progress_never_goes_back", f"{after['id']}: {old} → {new}")
        if before["committed_at"] is not None and after["members"] != before["members"]:
            raise Broken("the_commit_stands", f"{after['id']} changed its members by {event.name}")

    def _queued(self, after: Record) -> None:
        held = [
            node["id"] for node in self._bound(after) if node["state"] in ("created", "claimed", "running")
        ]
        if held:
            raise Broken("the_queue_holds_nothing", f"{after['id']} queues and holds {held}")

    def _resumed(self, after: Record) -> None:
        """Check the order of the queue: no operation tries again while an older one waits."""
        place = (after["created_at"], after["id"])
        for operation_id in self._at.records.unfinished:
            other = self._at.records.operations[operation_id]
            waits = other["queued_since"] is not None and other["template"] == after["template"]
            if waits and (other["created_at"], other["id"]) < place:
                raise Broken("the_queue_is_fair", f"{after['id']} goes on before {operation_id}")

    def _committed(self, after: Record) -> None:
        request, members = after["request"], after["members"]
        if len(members) != request["count"] or len({each["node_id"] for each in members}) != len(members):
            raise Broken("all_or_nothing", f"{after['id']} wants {request['count']} and commits {members}")
        for member in members:
            node = self._at.records.nodes[member["node_id"]]
            self._member(after, node, member["assignment_id"])

    def _member(self, operation: Record, node: Record, assignment_id: str) -> None:
        who = f"{operation['id']} commits {node['id']} ({node['machine_id']}, {node['state']})"
        if node["operation_id"] != operation["id"] or node["assignment_id"] != assignment_id:
            raise Broken("all_attached_at_commit", f"{who}, which is bound to {node['operation_id']}")
        if node["state"] not in ("created", "claimed") or node["attached_at"] is None:
            raise Broken("all_attached_at_commit", f"{who}, attached at {node['attached_at']}")
        misfit = self._misfit(operation, node)
        if misfit:
            raise Broken("members_are_what_was_asked_for", f"{who}: {misfit}")
        entry = self._at.ledger.get(node["machine_id"])
        if entry is not None and entry.gone_at is not None and entry.gone_at < self._at.now() - SILENCE:
            raise Broken("all_alive_at_commit", f"{who}, gone since {entry.gone_at}")
        agent = self._at.agents.get(node["machine_id"])
        if agent is None or assignment_id in agent.ended:
            return
        if agent.attached != assignment_id:
            raise Broken("all_attached_at_commit", f"{who}, whose agent is attached to {agent.attached}")

    def _misfit(self, operation: Record, node: Record) -> str:
        request: dict[str, Any] = operation["request"]
        spec = self._at.records.spec(node["template"], node["revision"])
        if node["template"] != request["template"]:
            return f"template {node['template']}"
        if node["revision"] < self._revision_at_start[operation["id"]]:
            return f"old revision {node['revision']}"
        if node["resource_class"] != (request["resource_class"] or spec["resource_class"]):
            return f"class {node['resource_class']}"
        if node["usage_class"] not in (request["usage"] or spec["usage"]):
            return f"usage class {node['usage_class']}"
        if not type_matches(node["instance_type"], request["instance_types"] or spec["instance_types"]):
            return f"instance type {node['instance_type']}"
        if node["owner"] != request["owner"] or node["run"] != request["run"]:
            return f"owner {node['owner']}, run {node['run']}"
        return ""

    def _ended(self, after: Record) -> None:
        states = (
            ("created", "claimed") if after["status"] == "succeeded" else ("created", "claimed", "running")
        )
        left = [f"{node['id']} ({node['state']})" for node in self._bound(after) if node["state"] in states]
        if left and after["kind"] != "release":
            raise Broken("an_end_leaves_nothing", f"{after['id']} {after['status']} and leaves {left}")
        if after["kind"] == "release" and after["status"] == "succeeded":
            self._released(after)
        internal = self._internal(after)
        if after["kind"] == "provision":
            if not internal and (after["status"] == "succeeded") != (after["committed_at"] is not None):
                raise Broken("succeeded_is_committed", f"{after['id']} {after['status']}")
            if after["status"] != "succeeded" and after["verdict"] is None:
                raise Broken("failures_say_why", f"{after['id']} {after['status']} without a verdict")

    def _internal(self, after: Record) -> bool:
        """Whether an internal error ended it: only its own, or that of the operation that it releases."""
        verdict = after["verdict"]
        if verdict is None or verdict["reason"] != "internal":
            return False
        concerned = (after["id"], after["request"].get("operation_id", ""))
        if self._at.bugs is not None and not any(self._at.bugs.get(each) for each in concerned):
            raise Broken("a_bug_stops_no_other_operation", f"{after['id']} met none: {verdict}")
        return True

    def _released(self, after: Record) -> None:
        """It says that all nodes are back: none of those it meant still runs."""
        meant = after["request"]["assignment_ids"]
        for node in self._at.records.nodes_of(after["request"]["operation_id"]):
            if node["state"] == "running" and (meant is None or node["assignment_id"] in meant):
                raise Broken("released_is_released", f"{after['id']} leaves {node['id']} running")

    def _bound(self, operation: Record) -> list[Record]:
        return self._at.records.nodes_of(operation["id"])
