"""Promises about single nodes: edges, bindings, and that records say what the machines do."""

from typing import Any

from muster.domain.events import Event
from muster.domain.lifecycle import Fact, NodeState, Verb, allowed
from muster.domain.matching import reuse_allows
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL, Reuse
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import OPEN, Record

_FACTS = tuple(str(fact) for fact in Fact)
_HELD = ("created", "claimed")
_TOLD_AS = {"rescued": Verb.RELEASE, "renewed": Verb.EXTEND}
"""Verbs whose events have a name that says more."""


class NodeRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._assigned: dict[str, str] = {}
        """Every assignment there ever was, with its node."""

    def check(self, event: Event, before: Record | None, after: Record) -> None:
        self._edge(event, before, after)
        self._assignment(event, before, after)
        if before is None:
            self._adopted(after)
        enrolled = after["provider"] == EXTERNAL
        if after["state"] in _HELD and (before is None or before["state"] not in _HELD) and not enrolled:
            self._taken(after)
        if after["state"] == "idle":
            self._idle(after)
        elif after["state"] == "terminated":
            self._gone(after)
        match event.name:
            case "claim":
                self._claimed(after)
            case "attached":
                self._attached(after)
            case "extend" | "renewed" if after["deadline_source"] == "min_idle":
                self._kept_warm(after)
            case "hand_over" if not enrolled:
                self._handed_over(after)
            case "fail" | "condemn" | "release" if before is not None and before["state"] in _HELD:
                self._uncommitted(event, before)
            case "condemn" if after["reason"] == Reason.RETIRED:
                self._retired(after)
            case _:
                pass

    def _edge(self, event: Event, before: Record | None, after: Record) -> None:
        source = None if before is None else NodeState(before["state"])
        target = NodeState(after["state"])
        stays = source is target
        verb = None if event.name in _FACTS else _TOLD_AS.get(event.name) or Verb(event.name)
        legal = stays if verb is None else allowed(verb, source, target)
        if not legal:
            raise Broken("only_edges_of_the_table", f"{_name(after)}: {event.name} {source} → {target}")

    def _assignment(self, event: Event, before: Record | None, after: Record) -> None:
        old = None if before is None else before["assignment_id"]
        new = after["assignment_id"]
        if new is None or new == old:
            return
        if old is not None:
            raise Broken(
                "one_assignment_per_node", f"{_name(after)} went from {old} to {new} by {event.name}"
            )
        if new in self._assigned:
            raise Broken(
                "assignments_are_never_used_again", f"{new} of {_name(after)} was {self._assigned[new]}'s"
            )
        self._assigned[new] = after["id"]

    def _adopted(self, after: Record) -> None:
        entry = self._at.ledger.get(after["machine_id"])
        if entry is None or entry.installation_id != self._at.installation_id:
            raise Broken("no_foreign_machine_is_touched", f"{_name(after)} was adopted and isn't ours")
        launch = self._at.records.launches.get(after["launch_id"] or "")
        if launch is None or launch["state"] in OPEN or after["state"] == "terminating":
            return
        if entry.sent_at > launch["closed_at"]:
            raise Broken(
                "late_machines_are_never_usable",
                f"{_name(after)} comes from a call made after launch {launch['id']} was {launch['state']}",
            )

    def _taken(self, after: Record) -> None:
        """A node was bound to an operation: one that goes on, and that has room for it."""
        operation = self._at.records.operations[after["operation_id"]]
        if operation["ended_at"] is not None:
            raise Broken("nobody_takes_for_the_ended", f"{_name(after)} was taken for {operation['id']}")
        held = [node["id"] for node in self._at.records.nodes_of(operation["id"]) if node["state"] in _HELD]
        if len(held) > operation["request"]["count"]:
            raise Broken("nobody_takes_too_much", f"{operation['id']} holds {held}")

    def _idle(self, after: Record) -> None:
        for field in ("operation_id", "assignment_id", "run", "owner", "attached_at"):
            if after[field] is not None:
                raise Broken("idle_nodes_are_unbound", f"{_name(after)} has {field} {after[field]}")
        agent = self._at.agents.get(after["machine_id"])
        if agent is not None and agent.attached is not None:
            raise Broken("idle_nodes_are_detached", f"{_name(after)} is still attached to {agent.attached}")

    def _gone(self, after: Record) -> None:
        entry = self._at.ledger.get(after["machine_id"])
        if entry is not None and not entry.gone:
            raise Broken("terminated_is_gone", f"{_name(after)} is terminated and its machine lives")

    def _claimed(self, after: Record) -> None:
        operation = self._at.records.operations[after["operation_id"]]
        if operation["status"] == "queued" and operation["queued_since"] is not None:
            raise Broken(
                "the_queue_holds_nothing", f"{_name(after)} was claimed for queued {operation['id']}"
            )
        reuse = Reuse(self._at.records.spec(after["template"], after["revision"])["reuse"])
        if not reuse_allows(reuse, after["last_owner"], after["owner"]):
            raise Broken(
                "reuse_is_respected",
                f"{_name(after)} of {after['last_owner']} was claimed for {after['owner']}",
            )
        if after["revision"] < self._at.records.current[after["template"]] or after["drain"]:
            raise Broken(
                "claims_are_current", f"{_name(after)} is of revision {after['revision']} or draining"
            )

    def _retired(self, after: Record) -> None:
        if after["revision"] >= self._at.records.current[after["template"]]:
            raise Broken("only_the_old_are_retired", f"{_name(after)} is of the current revision")

    def _kept_warm(self, after: Record) -> None:
        reuse = Reuse(self._at.records.spec(after["template"], after["revision"])["reuse"])
        if not reuse_allows(reuse, after["last_owner"], "a new owner"):
            raise Broken("the_minimum_is_for_anybody", f"{_name(after)} is kept for {after['last_owner']}")

    def _attached(self, after: Record) -> None:
        self._physically(after, "attached_is_attached")

    def _handed_over(self, after: Record) -> None:
        operation = self._at.records.operations[after["operation_id"]]
        member = {"node_id": after["id"], "assignment_id": after["assignment_id"]}
        if operation["committed_at"] is None or member not in operation["members"]:
            raise Broken("handed_over_after_commit", f"{_name(after)} runs for {operation['id']} uncommitted")
        self._physically(after, "one_run_at_a_time")

    def _physically(self, after: Record, name: str) -> None:
        agent = self._at.agents.get(after["machine_id"])
        if agent is None or after["assignment_id"] in agent.ended:
            return
        if agent.attached != after["assignment_id"]:
            raise Broken(
                name, f"{_name(after)} counts for {after['assignment_id']}, its agent for {agent.attached}"
            )

    def _uncommitted(self, event: Event, before: Record) -> None:
        operation: dict[str, Any] | None = self._at.records.operations.get(before["operation_id"] or "")
        bugs = self._at.bugs
        buggy = bugs is None or bool(bugs.get(before["operation_id"] or ""))
        if event.changes.get("reason") == "internal" and buggy:
            return  # what an operation holds that meets a bug is thrown away, whatever it had come to
        if operation is not None and event.name == "condemn":
            self._rolled_back(event, before, operation)
        if operation is not None and operation["committed_at"] is not None:
            raise Broken(
                "committed_nodes_only_roll_forward",
                f"{_name(before)} of committed {operation['id']} suffered {event.name}",
            )

    def _rolled_back(self, event: Event, before: Record, operation: Record) -> None:
        """A provision that fails or is cancelled gives its warm nodes back instead of throwing them away."""
        verdict = operation["verdict"] or {"reason": "cancelled"}
        failing = operation["verdict"] is not None or operation["cancel_requested_at"] is not None
        spec = self._at.records.spec(before["template"])
        overdue = before["deadline_at"] is not None and event.at >= before["deadline_at"]
        reusable = spec["reuse"] != Reuse.NEVER and not before["drain"] and not overdue
        if (
            failing
            and reusable
            and before["state"] == "claimed"
            and event.changes["reason"] == verdict["reason"] != "operator"  # who may end any node himself
        ):
            raise Broken("warm_nodes_return", f"{_name(before)} of {operation['id']} was thrown away")


def _name(node: Record) -> str:
    return f"node {node['id']} ({node['machine_id']}, {node['state']})"
