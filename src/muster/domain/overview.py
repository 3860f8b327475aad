"""The whole at one look: what is wrong, what waits, what failed, who changed what, and how much there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.domain.boot import Distribution, distribution
from muster.domain.failures import Group
from muster.domain.findings import ORDER, Finding
from muster.domain.health import Health, Vitals
from muster.domain.ids import NodeId, OperationId
from muster.domain.job_figures import JobFigures
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.observations import DAY, HOUR, Calls, Dependency, DutyObservation
from muster.domain.progress import Tone
from muster.domain.recent_changes import Change
from muster.domain.template import Template
from muster.domain.undelivered import Backlog
from muster.domain.wait_reasons import Waiting

GROUPS_MOST = 20
LEFTOVERS_MOST = 20
STATES_FOR = HOUR
KEPT = 30 * DAY
"""Older acknowledgements are forgotten, and what they were for is shown again."""
SHOWN = 20
NODES_SHOWN = 8
_WORST_FIRST = (Health.OFFLINE, Health.DEGRADED, Health.STARTING, Health.READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    node_id: NodeId
    health: Health | None
    health_reason: str
    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One run and its nodes; apps, which enrol themselves and belong to no run, are one per template."""

    operation_id: OperationId | None
    """The provision that handed them over."""
    run: str | None
    template: str
    since: float
    deadline_at: float | None
    """When the first of them must be given back."""
    count: int
    unwell: int
    nodes: tuple[Held, ...]
    """A few, the unwell first."""


def holdings(nodes: Sequence[Node], vitals: Mapping[NodeId, Vitals]) -> tuple[Holding, ...]:
    """Return who holds running nodes. Runs with an unhealthy node come first, then those that end first."""
    members: dict[str, list[Node]] = {}
    for node in nodes:
        members.setdefault(node.operation_id or f"template {node.template}", []).append(node)
    found = [_holding(some, vitals) for some in members.values()]
    return tuple(sorted(found, key=_urgency))


def _urgency(each: Holding) -> tuple[bool, float, float, str]:
    ends = float("inf") if each.deadline_at is None else each.deadline_at
    return (each.unwell == 0, ends, each.since, each.operation_id or each.template)


def _holding(nodes: Sequence[Node], vitals: Mapping[NodeId, Vitals]) -> Holding:
    held = sorted((_held(node, vitals.get(node.id)) for node in nodes), key=_badness)
    deadlines = [node.deadline_at for node in nodes if node.deadline_at is not None]
    first = nodes[0]
    return Holding(
        operation_id=first.operation_id,
        run=first.run,
        template=first.template,
        since=min(node.entered_at for node in nodes),
        deadline_at=min(deadlines, default=None),
        count=len(nodes),
        unwell=sum(each.health in (Health.OFFLINE, Health.DEGRADED) for each in held),
        nodes=tuple(held[:NODES_SHOWN]),
    )


def _held(node: Node, vitals: Vitals | None) -> Held:
    return Held(
        node_id=node.id,
        health=None if vitals is None else vitals.health,
        health_reason="" if vitals is None else vitals.health_reason,
        drain=node.drain,
    )


def _badness(each: Held) -> tuple[int, str]:
    place = len(_WORST_FIRST) if each.health is None else _WORST_FIRST.index(each.health)
    return place, each.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An operator has seen a finding, and it need not be shown first any more."""

    finding: str
    """The finding's id."""
    tone: Tone
    """How bad it was."""
    at: float
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    finding: Finding
    actor: str
    at: float


def holds(acknowledgement: Acknowledgement, finding: Finding, *, now: float) -> bool:
    """Return whether an acknowledgement still covers the finding.

    A finding comes back when it happens anew or gets worse. A state whose begin is unknown can't be told from
    the same state anew, so it comes back after an hour.
    """
    if ORDER.index(finding.tone) < ORDER.index(acknowledgement.tone) or now >= acknowledgement.at + KEPT:
        return False
    if finding.happened_at is None:
        return now < acknowledgement.at + STATES_FOR
    return finding.happened_at <= acknowledgement.at


def split_acknowledged(
    findings: Sequence[Finding], acknowledgements: Sequence[Acknowledgement], *, now: float
) -> tuple[tuple[Finding, ...], tuple[Acknowledged, ...]]:
    """Split the findings into those to show and those acknowledged, each in their order."""
    known = {each.finding: each for each in acknowledgements}
    shown: list[Finding] = []
    seen: list[Acknowledged] = []
    for finding in findings:
        found = known.get(finding.id)
        if found is not None and holds(found, finding, now=now):
            seen.append(Acknowledged(finding=finding, actor=found.actor, at=found.at))
        else:
            shown.append(finding)
    return tuple(shown), tuple(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Waiting work. `more`: there is more than was looked at."""

    groups: tuple[Waiting, ...]
    more: bool

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    groups: tuple[Group, ...]
    more: bool

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A template's nodes by state, against what it may have and should keep warm."""

    template: Template
    counts: Mapping[NodeState, int]
    used: int
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    items: tuple[Pool, ...]
    used: int
    max_nodes: int
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    terminating: int
    stuck: tuple[Node, ...]
    orphans: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Who has nodes. `more`: there are more running nodes than were looked at."""

    items: tuple[Holding, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node that is kept for a look, because it or its command failed."""

    node: Node
    by: str
    """Who keeps it; empty: not known."""
    used: int
    """How many nodes of its template count under the template's cap, this one too."""
    max_nodes: int

    @property
    def end(self) -> str:
        """Return the command that ends it before its time."""
        if self.node.state is NodeState.RUNNING and self.node.run:
            return f"muster release {self.node.run}"
        return f"muster nodes terminate {self.node.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One provision that got its nodes."""

    operation_id: OperationId
    template: str | None
    at: float
    seconds: float
    """From the request to the commit: until all nodes were ready for the run."""
    nodes: int
    warm: int
    """How many of them came from the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    provisions: int
    nodes: int
    warm: int
    ready: Distribution | None
    """Seconds to ready; None: no requests."""

    @property
    def rate(self) -> float | None:
        """Return the warm share of all nodes; None: no requests."""
        return self.warm / self.nodes if self.nodes else None


def warmth(handovers: Sequence[Handover]) -> Warmth:
    return Warmth(
        provisions=len(handovers),
        nodes=sum(each.nodes for each in handovers),
        warm=sum(each.warm for each in handovers),
        ready=distribution([each.seconds for each in handovers]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    at: float
    replica: str
    """Who looked: `store` and `dependencies` are as this one sees them."""
    verdict: Finding
    findings: tuple[Finding, ...]
    acknowledged: tuple[Acknowledged, ...]
    """What is wrong too, and an operator has seen."""
    waiting: Counted
    runs: Runs
    failed_hour: Failures
    failed_day: Failures
    leftovers: Leftovers
    changes: tuple[Change, ...]
    warm_hour: Warmth
    warm_day: Warmth
    warm_more: bool
    jobs: JobFigures
    pools: Pools
    health: Mapping[Health, int]
    paused: Sequence[str | None]
    duties: tuple[DutyObservation, ...]
    dependencies: tuple[Dependency, ...]
    store: Calls
    held: tuple[HeldNode, ...] = ()
    """Nodes that are kept for a look; the one that ends first is at the front."""
    undelivered: tuple[Backlog, ...] = ()
    """Of each webhook that has messages which were not delivered."""
