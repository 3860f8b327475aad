"""Promises about launches and caps: room is held before it is used, and never more than there is."""

from muster.domain.events import Event
from muster_simulation.cloud import Entry
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Record

PROMPT = 1.0
"""A call that leaves later than this after its launch says `calling` comes from a replica that was paused
between the two. Its machines may outlive the launch's reservation; they are given back, and not counted."""
_EDGES = {
    None: ("planned",),
    "planned": ("calling", "abandoned"),
    "calling": ("calling", "settled", "abandoned"),
    "settled": (),
    "abandoned": (),
}


class LaunchRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self.total_cap = 0
        """The highest cap over all templates so far; the world says it."""
        self._highest: dict[str, int] = {}
        """The highest cap of each template so far: lowering one gives nothing back at once."""
        self._machines: dict[str, int] = {}
        """Live machines by template, as the cloud knows them."""
        self._late: dict[str, None] = {}

    def check(self, event: Event, before: Record | None, after: Record) -> None:
        source = None if before is None else before["state"]
        if after["state"] not in _EDGES[source]:
            raise Broken("only_edges_of_a_launch", f"launch {after['id']}: {source} → {after['state']}")
        if before is None:
            self._reserved(after)

    def template(self, after: Record) -> None:
        name, cap = after["spec"]["name"], after["spec"]["max_nodes"]
        self._highest[name] = max(cap, self._highest.get(name, 0))

    def _reserved(self, launch: Record) -> None:
        records = self._at.records
        used, cap = records.recorded[launch["template"]], self._highest[launch["template"]]
        if used > cap:
            raise Broken("caps_hold", f"{launch['id']} reserves: {launch['template']} uses {used} of {cap}")
        if records.total > self.total_cap:
            raise Broken("caps_hold", f"{launch['id']} reserves: all use {records.total} of {self.total_cap}")

    def called(self, token: str) -> None:
        """A replica makes a launch call."""
        launch = self._at.records.launches.get(self._at.records.by_token.get(token, ""))
        if launch is None or launch["called_at"] is None:
            raise Broken("stored_before_called", f"a call with token {token} has no stored launch that calls")

    def made(self, entry: Entry) -> None:
        """A machine came into being."""
        launch = self._at.records.launches.get(self._at.records.by_token.get(entry.token, ""))
        if launch is None:
            raise Broken("stored_before_called", f"machine {entry.machine_id} has no launch")
        closed = launch["closed_at"] is not None and entry.sent_at > launch["closed_at"]
        if closed or entry.sent_at > launch["called_at"] + PROMPT:
            self._late[entry.machine_id] = None
            return
        template = entry.template
        self._machines[template] = self._machines.get(template, 0) + 1
        cap = self._highest[template]
        if self._machines[template] > cap:
            raise Broken(
                "caps_hold",
                f"{entry.machine_id} makes {self._machines[template]} machines of {template}, cap {cap}",
            )
        total = sum(self._machines.values())
        if total > self.total_cap:
            raise Broken(
                "caps_hold", f"{entry.machine_id} makes {total} machines in all, cap {self.total_cap}"
            )

    def found(self, entry: Entry) -> None:
        """A machine of ours that was there before, and that no launch tells of."""
        self._late[entry.machine_id] = None

    def gone(self, entry: Entry) -> None:
        if entry.machine_id in self._late:
            del self._late[entry.machine_id]
        else:
            self._machines[entry.template] -= 1
