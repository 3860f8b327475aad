"""Promises about jobs: they are served, within what GitHub was told, and by one listener at a time.

The rules believe GitHub, the feed and the store's leases. A bound on time begins anew with each fault of
GitHub and with each provision that fails.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from muster.domain.events import Entity, Event
from muster.integrations.github.runners import assignment_of
from muster_simulation.github import GitHubState, Job, Run, Runner, ScaleSet
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.jobs.faults import JobPlan
from muster_simulation.jobs.workflows import FOREIGN, SET_REPOSITORY

SERVED = 900.0
"""Seconds of calm, with room all the time, within which a waiting job must run.

The sum of a session that a dead replica left, a lease, the longest pauses of listener and provisions, and a
boot.
"""
TOLD = 180.0
"""Seconds of calm after which runners that are there were announced, or are gone."""
SENDS = 2
"""Requests of one act that was under way when its replica stood still: one, and one with a fresh token."""
ASKS = 16
"""Requests for runners that a listener has under way at once, when it is stopped in the middle."""
_HOLDS = ("created", "claimed", "running")
_UPSETTING = (Entity.TEMPLATE, Entity.INSTALLATION)


class Site(Protocol):
    """GitHub as the rules see it."""

    @property
    def state(self) -> GitHubState: ...

    @property
    def disturbed_at(self) -> float:
        """When something went wrong there last."""
        ...

    def jobs(self) -> list[Job]: ...


class JobRules:
    def __init__(
        self,
        context: Context,
        plan: JobPlan,
        *,
        total_cap: Callable[[], int | None],
        guarded: Callable[[Callable[[], None]], None],
        cancelled: Callable[[], dict[int, int]],
    ) -> None:
        """`guarded`: keeps the first broken promise. `cancelled`: attempts of the runs that people
        cancelled."""
        self.site: Site
        self._at = context
        self._plan = plan
        self._total_cap = total_cap
        self._guarded = guarded
        self._cancelled = cancelled
        self._upset_at = 0.0
        """When a provision failed, a node was lost or an operator changed something."""
        self._held_up: dict[int, float] = {}
        """When a waiting job was last kept back by a full cap or a disturbance."""
        self._nodes: dict[str, str] = {}
        """The node of each assignment."""
        self._leases: dict[str, tuple[str, float]] = {}
        """Holder and end, by the name of the duty."""
        self._told: deque[tuple[float, int]] = deque()
        """Capacities that GitHub heard, and when."""
        self._lapsed: dict[tuple[str, str], int] = {}
        """What replicas did after they lost the lease, by replica and kind of act."""

    # --- one listener acts ------------------------------------------------------------------------

    def leased(self, name: str, owner: str, until: float) -> None:
        """A replica got or renewed the lease of a duty."""
        self._leases[name] = (owner, until)
        for key in [each for each in self._lapsed if each[0] == owner]:
            del self._lapsed[key]

    def sent(self, owner: str, method: str, path: str) -> None:
        kind = self._act_of(method, path)
        if kind is not None:
            self._guarded(lambda: self._acts(owner, kind, most=SENDS))

    def _act_of(self, method: str, path: str) -> str | None:
        """Return what a request does, if only the holder of the lease may do it."""
        parts = path.strip("/").split("/")
        if method == "POST" and parts[-1] in ("sessions", "acquirejobs"):
            return parts[-1]
        if method == "DELETE" and parts[:2] == ["_actions", "queue"]:
            return "acknowledge"
        if method == "DELETE" and parts[-2] == "agents" and self._serves(int(parts[-1])):
            return "retire"
        return None

    def _serves(self, runner_id: int) -> bool:
        """Return whether the runner is online on a node that runs.

        Any replica withdraws the runners of nodes that end, and removes one that was never started before it
        registers the node anew.
        """
        runner = self.site.state.runners.get(runner_id)
        if runner is None or not self.site.state.online(runner):
            return False
        node = self._node_of(runner)
        return node is not None and node["state"] == "running"

    def _acts(self, owner: str, kind: str, *, most: int) -> None:
        """Check who acts. What was under way when its replica stood still is no broken promise."""
        holder, until = self._leases.get(f"scale_set/{self._plan.set_template}", ("", 0.0))
        if holder == owner and self._at.now() <= until:
            return
        done = self._lapsed[owner, kind] = self._lapsed.get((owner, kind), 0) + 1
        if done > most:
            raise Broken(
                "one_listener_acts",
                f"{owner} did {kind} {done} times without the lease, which {holder} had until {until:.0f}",
            )

    # --- runners and capacity ---------------------------------------------------------------------

    def announced(self, scale_set: ScaleSet, capacity: int) -> None:
        self._told.append((self._at.now(), capacity))
        if capacity > self._plan.max_runners:
            words = f"{scale_set.name} may have {self._plan.max_runners} runners, and GitHub heard {capacity}"
            self._guarded(lambda: _break("capacity_is_true", words))

    def registered(self, scale_set: ScaleSet) -> None:
        living = self._living()
        if len(living) > self._plan.max_runners:
            words = f"{scale_set.name} may have {self._plan.max_runners}: {[each.name for each in living]}"
            self._guarded(lambda: _break("runners_within_the_maximum", words))

    def _living(self) -> list[Runner]:
        """Return the registered runners of the set that are online, or about to be."""
        state = self.site.state
        registered = [each for each in state.runners.values() if each.set_id is not None]
        return [each for each in registered if state.online(each) or self._is_held(each)]

    def _is_held(self, runner: Runner) -> bool:
        node = self._node_of(runner)
        return node is not None and node["state"] in _HOLDS

    def _node_of(self, runner: Runner) -> dict[str, object] | None:
        assignment = assignment_of(self._at.installation_id, runner.name)
        node_id = self._nodes.get(assignment or "")
        node = None if node_id is None else self._at.records.nodes[node_id]
        return node if node is not None and node["assignment_id"] == assignment else None

    # --- what the feed tells ----------------------------------------------------------------------

    def event(self, event: Event, writer: str | None) -> None:
        """An event was folded into the records; `writer` is the replica that wrote it."""
        records = self._at.records
        if event.entity in _UPSETTING:
            self._upset_at = self._at.now()
        elif event.entity is Entity.NODE:
            node = records.nodes[event.entity_id]
            if node["assignment_id"] is not None:
                self._nodes[node["assignment_id"]] = node["id"]
            if event.name in ("fail", "condemn"):
                self._upset_at = self._at.now()
        elif event.entity is Entity.OPERATION:
            operation = records.operations[event.entity_id]
            if operation["verdict"] is not None:
                self._upset_at = self._at.now()
            if event.name == "submitted" and operation["kind"] == "provision":
                self._guarded(lambda: self._asked(operation["request"], writer))

    def _asked(self, request: dict[str, object], writer: str | None) -> None:
        job = request.get("job")
        if isinstance(job, dict) and job["repository"] == FOREIGN:
            raise Broken("strangers_get_no_machines", f"a provision was made for {job}")
        if request.get("scale_set") is not None and writer is not None:
            self._acts(writer, "ask", most=ASKS)

    # --- what time must bring ---------------------------------------------------------------------

    def tick(self, *, calm: bool) -> None:
        self._guarded(lambda: self._tick(calm=calm))

    def _tick(self, *, calm: bool) -> None:
        now = self._at.now()
        while self._told and self._told[0][0] < now - TOLD:
            self._told.popleft()
        quiet_since = max(self._at.presence.calm_since, self.site.disturbed_at, self._upset_at)
        if calm and now - quiet_since > TOLD:
            self._announced_enough()
        waiting = [job for job in self.site.jobs() if job.status == "queued" and job.repository != FOREIGN]
        held_up, self._held_up = self._held_up, {}
        for job in waiting:
            template = self._template(job)
            if not calm or not self._has_room(template):
                self._held_up[job.id] = now
                continue
            self._held_up[job.id] = held_up.get(job.id, 0.0)
            waited = now - max(job.queued_at, quiet_since, self._held_up[job.id])
            if waited > SERVED:
                raise Broken("jobs_are_served", f"{waited:.0f} s of calm, with room for {template}: {job}")
        self._check_reruns(self.site.state.runs.values())

    def _announced_enough(self) -> None:
        living, most = self._living(), max((capacity for _, capacity in self._told), default=0)
        if len(living) > most:
            names = [each.name for each in living]
            raise Broken("runners_within_the_capacity", f"GitHub heard {most} in {TOLD:.0f} s: {names}")

    def _check_reruns(self, runs: Iterable[Run]) -> None:
        cancelled = self._cancelled()
        for run in runs:
            if run.attempt > cancelled.get(run.id, run.attempt):
                raise Broken("cancelled_runs_stay_cancelled", f"run {run.id} is at attempt {run.attempt}")
            if run.attempt > 1 + self._plan.reruns:
                raise Broken("reruns_have_a_bound", f"run {run.id} is at attempt {run.attempt}")

    def _template(self, job: Job) -> str:
        set_job = job.repository == SET_REPOSITORY
        return self._plan.set_template if set_job else self._plan.label_template

    def _has_room(self, template: str) -> bool:
        """Return whether another runner could start, or one is idle."""
        records, total = self._at.records, self._total_cap()
        free = records.spec(template)["max_nodes"] - records.recorded.get(template, 0)
        if free > 0 and total is not None and total > records.total:
            return True
        nodes = [records.nodes[each] for each in records.live]
        return any(node["template"] == template and self._is_idle(node) for node in nodes)

    def _is_idle(self, node: dict[str, object]) -> bool:
        """Return whether the node's runner waits for a job. A machine in the pool may be another owner's."""
        names = (each for each in self.site.state.runners.values() if not each.busy)
        own = f"-{node['assignment_id']}"
        return node["state"] == "running" and any(
            each.name.endswith(own) and self.site.state.online(each) for each in names
        )

    def unfinished(self) -> str:
        """Return the jobs that should be over, in words; empty: they are."""
        left = [job for job in self.site.jobs() if job.status != "completed" and job.repository != FOREIGN]
        return f"{len(left)} jobs, the first is {left[0]}" if left else ""

    def left_behind(self) -> str:
        """Return the runners that are still registered, in words."""
        left = [each.name for each in self.site.state.runners.values()]
        return f"{len(left)} registered runners: {left[:3]}" if left else ""


def _break(name: str, words: str) -> None:
    raise Broken(name, words)
