"""Check promises about health: it is soon right, it changes only for a cause, and time without a replica
doesn't count."""

from muster.domain.events import Event
from muster.domain.lifecycle import LIVE
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record
from muster_simulation.invariants.truth import DATED, SIMULATED, Truth

NOTICED = 60.0
"""Seconds of calm within which the status duty notices: it looks every ten, and a store may fail it now and
then."""
ON_ITS_WAY = 2.0
"""The longest that a heartbeat travels in a simulated network."""
SILENCE = SIMULATED.stale_after + ON_ITS_WAY
"""A machine of which nothing was heard for longer than this is not fresh."""
_WELL = ("ready", "degraded")
_PATIENCE = {
    "idle": SIMULATED.dead_after,
    "running": SIMULATED.lost_after,
    "created": SIMULATED.stale_after + SIMULATED.dead_after,
    "claimed": SIMULATED.stale_after + SIMULATED.dead_after,
}
"""How long a silent node is waited for before it is condemned, by its state."""
_OVERDUE = {"running": "max_runtime", "idle": "idle_timeout", "releasing": "release_timeout"}
"""What a node is condemned for when the time of its state is over."""
_RESCUED = ("boot_timeout", "boot_stalled")
"""Failures that are waited for, if the template has a window: the others end when they are diagnosed."""


class HealthRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._health: dict[str, tuple[int, str, str]] = {}
        """Version, health and reason, as the feed tells them."""

    # --- health itself ----------------------------------------------------------------------------

    def changed(self, event: Event) -> None:
        node = self._at.records.nodes.get(event.entity_id)
        if node is None or node["state"] == "terminated":
            raise Broken("the_gone_feel_nothing", f"{event.entity_id} became {event.name} after its end")
        version, health, reason = self._health.get(event.entity_id, (0, "starting", ""))
        if event.version != version + 1:
            raise Broken("feed_is_complete", f"{event.entity_id}: health went from {version} to {event}")
        if (event.name, event.changes["health_reason"]) == (health, reason):
            raise Broken("health_events_are_changes", f"{event.entity_id} was {health} already: {event}")
        if event.name == "starting" and health in _WELL:
            raise Broken("starting_takes_nobody_back", f"{event.entity_id} was {health}: {event}")
        if event.name == "offline":
            self._offline(event, node)
        self._health[event.entity_id] = (event.version, event.name, str(event.changes["health_reason"]))

    def _offline(self, event: Event, node: Record) -> None:
        self._unseen(node, "no_live_node_is_offline", f"{event.detail}")
        self._not_for_absence(event, SIMULATED.stale_after, node)

    # --- what follows from it ---------------------------------------------------------------------

    def check(self, event: Event, before: Record | None, after: Record) -> None:
        match event.name:
            case "claim":
                self._heard(after, event.at, "no_dead_node_is_claimed")
            case "fail" if before is not None and after["reason"] == "boot_stalled":
                spec = self._at.records.spec(before["template"], before["revision"])
                self._not_for_absence(event, spec["stall_after"] or SIMULATED.stall_after, before)
            case "fail" if before is not None and after["reason"] == "boot_timeout":
                self._overdue(event, before)
            case "condemn" if before is not None:
                self._condemned(event, before, str(after["reason"]))
            case _:
                pass

    def committed(self, operation: Record) -> None:
        for member in operation["members"]:
            node = self._at.records.nodes[member["node_id"]]
            self._heard(node, self._at.now(), "all_alive_at_commit")

    def _condemned(self, event: Event, before: Record, reason: str) -> None:
        state = before["state"]
        if reason == "heartbeat_lost" and state in _PATIENCE and not self._rolled_back(before):
            self._unseen(before, "no_live_node_is_given_up", f"{event.detail}")
            self._not_for_absence(event, _PATIENCE[state], before)
        elif reason == _OVERDUE.get(state) or (state == "failed" and self._waited_for(before, reason)):
            self._overdue(event, before)

    def _waited_for(self, node: Record, reason: str) -> bool:
        """Return whether the node still had time to boot. A node that has booted needs none.

        If its template keeps no pool, or the node drains, it is condemned at once.
        """
        spec = self._at.records.spec(node["template"], node["revision"])
        useless = self._truth(node).booted and (spec["reuse"] == "never" or node["drain"])
        return reason in _RESCUED and spec["rescue_window"] > 0 and not useless

    def _overdue(self, event: Event, before: Record) -> None:
        """Return whether the deadline is over. One that passed while no replica was there gets a grace."""
        absence = self._at.presence.absence
        if absence is not None and absence.began < (before["deadline_at"] or 0.0) <= event.at:
            self._not_for_absence(event, SIMULATED.return_grace, before)

    def _not_for_absence(self, event: Event, patience: float, node: Record) -> None:
        """Judged by what was known at the event's own time; what was judged before the absence stands."""
        absence = self._at.presence.absence
        if absence is not None and absence.ended <= event.at < absence.ended + patience - DATED:
            raise Broken(
                "nobody_is_judged_for_absence",
                f"{event.name} {event.at - absence.ended:.0f} s after {absence}, not {patience:.0f}: {node}",
            )

    def _rolled_back(self, node: Record) -> bool:
        """Whether it goes because its operation fails, for whatever reason that does."""
        operation = self._at.records.operations.get(node["operation_id"] or "")
        return operation is not None and operation["verdict"] is not None

    # --- what time must bring ---------------------------------------------------------------------

    def tick(self, *, calm: bool) -> None:
        if not calm:
            return
        now, records, calm_since = self._at.now(), self._at.records, self._at.presence.calm_since
        for node_id in records.live:
            node = records.nodes[node_id]
            if node["state"] not in LIVE or node["joined_at"] is None:
                continue
            truth = self._truth(node)
            health = self._health.get(node_id, (0, "starting", ""))[1]
            silent_for = now - max(truth.reached_at, calm_since)
            if silent_for > SIMULATED.stale_after + NOTICED and health != "offline":
                raise Broken(
                    "the_silent_are_offline", f"{health} after {silent_for:.0f} s of silence: {node}"
                )
            beating_since = truth.beating_since
            if beating_since is None or now - truth.beat_at > SIMULATED.stale_after - DATED:
                continue
            beating_for = now - max(beating_since, calm_since)
            if beating_for > SIMULATED.max_transition + NOTICED and health not in _WELL:
                raise Broken("the_living_are_ready", f"{health} after {beating_for:.0f} s of beats: {node}")

    # --- the truth --------------------------------------------------------------------------------

    def _truth(self, node: Record) -> Truth:
        return self._at.truths.get(node["machine_id"]) or Truth()

    def _heard(self, node: Record, at: float, name: str) -> None:
        """Something of it was worked on within the time that makes it fresh."""
        truth = self._at.truths.get(node["machine_id"])
        if truth is not None and truth.reached_at < at - SILENCE:
            raise Broken(name, f"nothing was heard since {truth.reached_at:.0f}, {at:.0f} now: {node}")

    def _unseen(self, node: Record, name: str, detail: str) -> None:
        """No fresh beat of it is in the store."""
        age = self._at.now() - self._truth(node).beat_at
        if age < SIMULATED.stale_after - DATED:
            raise Broken(name, f"a beat of {age:.0f} s ago was stored, and yet {detail!r}: {node}")
