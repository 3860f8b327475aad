"""Promises about boots: slow is not stuck, stuck is not slow, and who was given up is not taken back."""

from muster.domain.deadlines import EXTENSION, HARD
from muster.domain.events import Event
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record
from muster_simulation.invariants.truth import DATED, SIMULATED, Truth

SWEPT = 60.0
"""Seconds of calm within which the sweep finds a boot that stands still.

The sweep looks every ten seconds, a store may fail it now and then, and late beats count as they come.
"""
_TIMED = ("boot_timeout", "boot_stalled")
_USED = ("created", "claimed", "running")


class BootRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._given_up: dict[str, str | None] = {}
        """Nodes that failed, with the assignment of that time."""
        self._diagnosed: dict[str, None] = {}
        self._told_at: dict[str, float] = {}
        """When a node last reported a phase or a step."""

    def check(self, event: Event, before: Record | None, after: Record) -> None:
        if event.entity_id in self._given_up:
            self._after_giving_up(event, after)
        if before is None:
            return
        match event.name:
            case "fail":
                self._failed(before, after)
            case "extend" if after["deadline_source"] == EXTENSION:
                self._extended(after)
            case "rescued":
                self._rescued(before, event)
            case "joined" | "advanced":
                self._told_at[event.entity_id] = self._at.now()
            case _:
                pass

    def diagnosed(self, event: Event) -> None:
        if event.entity_id in self._diagnosed:
            raise Broken("one_diagnosis_per_node", f"{event.entity_id} was diagnosed again")
        self._diagnosed[event.entity_id] = None

    def committed(self, operation: Record) -> None:
        for member in operation["members"]:
            given_up = self._given_up.get(member["node_id"])
            if given_up is not None and given_up == member["assignment_id"]:
                raise Broken("given_up_is_given_up", f"{operation['id']} commits {member}, which it gave up")

    def tick(self, *, calm: bool) -> None:
        if not calm:
            return
        now, records = self._at.now(), self._at.records
        for node_id in records.live:
            node = records.nodes[node_id]
            if node["state"] != "created" or node["booted_at"] is not None or node["joined_at"] is None:
                continue
            moved_at = self._truth(node).moved_at or 0.0
            still_since = max(moved_at, self._told_at.get(node_id, 0.0), self._at.presence.calm_since)
            if now - still_since > self._stall_after(node) + SWEPT:
                raise Broken(
                    "who_stands_still_is_failed", f"{now - still_since:.0f} s of calm without advance: {node}"
                )

    # --- one node ---------------------------------------------------------------------------------

    def _failed(self, before: Record, after: Record) -> None:
        if after["id"] in self._given_up:
            raise Broken("one_failure_per_node", f"node {after['id']} failed again")
        self._given_up[after["id"]] = before["assignment_id"]
        if after["reason"] in _TIMED and before["deadline_source"] != HARD:
            self._not_too_early(before, str(after["reason"]))

    def _not_too_early(self, node: Record, reason: str) -> None:
        """What advances is not given up before its ceiling."""
        now = self._at.now()
        if now >= self._ceiling(node) or node["joined_at"] is None:
            return
        patience = self._stall_after(node)
        if reason == "boot_timeout":
            patience = min(patience, (node["deadline_at"] - node["entered_at"]) / 2)
        advance_at = self._truth(node).advance_at
        if now - advance_at < patience - DATED:
            raise Broken(
                "no_advancing_boot_is_failed",
                f"{reason} {now - advance_at:.0f} s after an advance, patience {patience:.0f} s: {node}",
            )

    def _extended(self, after: Record) -> None:
        if after["deadline_at"] > self._ceiling(after) + 1.0:
            raise Broken("extensions_have_a_ceiling", f"{self._ceiling(after)} was passed: {after}")

    def _rescued(self, before: Record, event: Event) -> None:
        window = self._at.records.spec(before["template"], before["revision"])["rescue_window"]
        late = event.at - before["entered_at"]
        # Time without a watching replica ended with the last disturbance at the latest; its grace ends then.
        graced = self._at.presence.calm_since + SIMULATED.return_grace
        if before["reason"] not in _TIMED or (late > window and event.at > graced):
            raise Broken("only_the_late_are_rescued", f"{late:.0f} s late of {window:.0f} s: {before}")

    def _after_giving_up(self, event: Event, after: Record) -> None:
        if after["state"] not in _USED:
            return
        assignment = self._given_up[after["id"]]
        if after["state"] == "created" or (assignment is not None and after["assignment_id"] == assignment):
            raise Broken("given_up_is_given_up", f"{event.name} takes it back: {after}")

    def _truth(self, node: Record) -> Truth:
        return self._at.truths.get(node["machine_id"]) or Truth()

    def _stall_after(self, node: Record) -> float:
        found: float | None = self._at.records.spec(node["template"], node["revision"])["stall_after"]
        return found or SIMULATED.stall_after

    def _ceiling(self, node: Record) -> float:
        spec = self._at.records.spec(node["template"], node["revision"])
        longest = spec["max_provision_timeout"] or 2 * (spec["provision_timeout"] or SIMULATED.boot)
        return float(node["entered_at"] + longest)
