"""The overview. Every block stands for itself: a page leaves out what it doesn't know."""

from collections.abc import Sequence
from typing import Annotated, Self

from msgspec import Meta

from muster.domain import failures, findings, overview, wait_reasons
from muster.domain import overview as domain
from muster.domain.events import Entity
from muster.domain.findings import About
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.overview import GROUPS_MOST, LEFTOVERS_MOST
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.recent_changes import Change as Changed
from muster.wire.base import EXAMPLE_TIME, Shape, Spread, Time, convert
from muster.wire.jobs import JobSummary
from muster.wire.nodes import Pools
from muster.wire.observations import Dependency, Duty, StoreCalls
from muster.wire.templates import Pauses
from muster.wire.webhooks import Backlog

Culprit = Annotated[str, Meta(extra_json_schema={"enum": [*findings.Culprit]})]
WaitsFor = Annotated[str, Meta(extra_json_schema={"enum": [*wait_reasons.WaitsFor]})]
ReasonWord = Annotated[str, Meta(extra_json_schema={"enum": [*Reason]})]
HealthWord = Annotated[str, Meta(extra_json_schema={"enum": [*Health]})]
NodeStateWord = Annotated[str, Meta(extra_json_schema={"enum": [*NodeState]})]
EntityWord = Annotated[str, Meta(extra_json_schema={"enum": [*Entity]})]
"""Words: a newer server may have more of them."""
FINDING_EXAMPLE = {
    "id": "provider_failing.ec2",
    "code": "provider_failing",
    "tone": "danger",
    "culprit": "cloud",
    "text": "ec2 failed 12 of 20 calls in the last 5 min.",
    "advice": "Check its status page, credentials and network. New nodes wait until it answers.",
    "about": {"kind": "provider", "id": "ec2"},
    "over": False,
}


class Finding(Shape):
    EXAMPLE = FINDING_EXAMPLE

    id: str
    """The same for the same trouble; names it when it is acknowledged."""
    code: str
    tone: Tone
    culprit: Culprit
    text: str
    advice: str
    about: About | None = None
    """What it is about: a provider, template, node, operation, job, duty, webhook or store."""
    over: bool = False
    """It happened, and nothing shows that it continues."""

    @classmethod
    def of(cls, found: findings.Finding) -> Self:
        return convert(cls, found)


class AcknowledgedFinding(Shape):
    finding: Finding
    by: str
    """Who has seen it."""
    at: Time

    @classmethod
    def of(cls, given: overview.Acknowledged) -> Self:
        return convert(cls, given, by=given.actor)


class WaitingReason(Shape):
    reason: WaitsFor
    text: str
    count: int
    oldest_since: Time
    operation_ids: tuple[str, ...]
    """The oldest few."""


class Waiting(Shape):
    count: int
    more: bool
    """There are more than were looked at."""
    reasons: tuple[WaitingReason, ...]
    """The one with the oldest first."""


class Held(Shape):
    node_id: str
    health: HealthWord | None = None
    health_reason: str = ""
    drain: bool = False


class RunningRun(Shape):
    operation_id: str | None = None
    """The provision that handed the nodes over; null: apps that enrolled by themselves."""
    run: str | None = None
    template: str
    since: Time
    deadline_at: Time | None = None
    """When the first of them must be given back."""
    count: int
    unwell: int
    nodes: tuple[Held, ...]
    """A few, the unwell first."""


class Runs(Shape):
    count: int
    more: bool
    """There are more running nodes than were looked at."""
    items: tuple[RunningRun, ...]
    """Those with an unwell node first, then whose time ends first."""

    @classmethod
    def of(cls, found: domain.Runs) -> Self:
        return convert(cls, found, count=len(found.items), items=found.items[: overview.SHOWN])


class HeldNode(Shape):
    """A node that is kept for a look, because it or its command failed."""

    node_id: str
    state: NodeStateWord
    template: str
    run: str | None = None
    operation_id: str | None = None
    reason: ReasonWord | None = None
    by: str
    """Who keeps it; empty: not known."""
    since: Time
    deadline_at: Time | None = None
    """When it ends."""
    used: int
    """How many nodes count under the cap of its template, this one too."""
    max_nodes: int
    end: str
    """The command that ends it before its time."""

    @classmethod
    def of(cls, held: domain.HeldNode) -> Self:
        node = held.node
        return convert(
            cls,
            node,
            node_id=node.id,
            by=held.by,
            since=node.entered_at,
            used=held.used,
            max_nodes=held.max_nodes,
            end=held.end,
        )


class HeldNodes(Shape):
    count: int
    items: tuple[HeldNode, ...]
    """The one that ends first is at the front."""

    @classmethod
    def of(cls, held: Sequence[domain.HeldNode]) -> Self:
        return cls(count=len(held), items=tuple(HeldNode.of(each) for each in held[: overview.SHOWN]))


class FailureGroup(Shape):
    cause: str
    """What the diagnosis says, else the reason's code."""
    diagnosed: bool
    reason: ReasonWord
    template: str | None = None
    revision: int | None = None
    count: int
    nodes: int
    operations: int
    first_at: Time
    last_at: Time
    example_node_id: str | None = None
    example_operation_id: str | None = None
    detail: str = ""
    advice: str = ""

    @classmethod
    def of(cls, group: failures.Group) -> Self:
        return convert(cls, group, example_node_id=group.node_id, example_operation_id=group.operation_id)


class Failed(Shape):
    count: int
    more: bool
    groups: tuple[FailureGroup, ...]
    """Most frequent first."""

    @classmethod
    def of(cls, found: domain.Failures) -> Self:
        return convert(cls, found, groups=tuple(FailureGroup.of(each) for each in found.groups[:GROUPS_MOST]))


class Failures(Shape):
    hour: Failed
    day: Failed


class Leftover(Shape):
    node_id: str
    machine_id: str
    provider: str
    template: str
    since: Time
    reason: ReasonWord | None = None
    detail: str = ""

    @classmethod
    def of(cls, node: Node) -> Self:
        return convert(cls, node, node_id=node.id, since=node.entered_at)


class LeftoverList(Shape):
    count: int
    items: tuple[Leftover, ...]
    """Longest first."""

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Self:
        return cls(count=len(nodes), items=tuple(Leftover.of(node) for node in nodes[:LEFTOVERS_MOST]))


class Leftovers(Shape):
    terminating: int
    stuck: LeftoverList
    orphans: LeftoverList


class Change(Shape):
    id: str
    at: Time
    what: str
    text: str
    who: str
    """Empty: not known."""
    entity: EntityWord
    entity_id: str
    template: str | None = None
    revision: int | None = None
    detail: str = ""
    count: int = 1

    @classmethod
    def of(cls, change: Changed) -> Self:
        return convert(cls, change)


class Warm(Shape):
    provisions: int
    nodes: int
    warm: int
    rate: float | None = None
    more: bool
    ready: Spread | None = None
    """Seconds from a request to its commit."""

    @classmethod
    def of(cls, found: domain.Warmth, *, more: bool) -> Self:
        rate = None if found.rate is None else round(found.rate, 4)
        return convert(cls, found, rate=rate, more=more, ready=Spread.of(found.ready))


class Warmth(Shape):
    hour: Warm
    day: Warm


class Overview(Shape):
    """What is wrong, first; then what waits, failed, lingers, changed, and how much there is."""

    EXAMPLE = {"at": EXAMPLE_TIME, "verdict": FINDING_EXAMPLE, "findings": [FINDING_EXAMPLE]}

    at: Time
    replica: str
    """Who looked: `store` and `providers` are as this replica sees them."""
    verdict: Finding
    findings: tuple[Finding, ...]
    """What goes on first, then the worst."""
    acknowledged: tuple[AcknowledgedFinding, ...] = ()
    """What is wrong too, and an operator has seen. It comes back when it happens anew."""
    waiting: Waiting
    runs: Runs
    failures: Failures
    leftovers: Leftovers
    changes: tuple[Change, ...]
    warmth: Warmth
    jobs: JobSummary
    pools: Pools
    health: dict[HealthWord, int]
    brakes: Pauses
    duties: tuple[Duty, ...]
    providers: tuple[Dependency, ...]
    store: StoreCalls
    held: HeldNodes = HeldNodes(count=0, items=())
    """Nodes that are kept for a look. They count under the caps until they end."""
    undelivered: tuple[Backlog, ...] = ()
    """Of each webhook that has messages which were not delivered."""

    @classmethod
    def of(cls, seen: domain.Overview) -> Self:
        left = seen.leftovers
        return convert(
            cls,
            seen,
            acknowledged=tuple(AcknowledgedFinding.of(each) for each in seen.acknowledged),
            waiting=convert(Waiting, seen.waiting, reasons=seen.waiting.groups),
            runs=Runs.of(seen.runs),
            failures=Failures(hour=Failed.of(seen.failed_hour), day=Failed.of(seen.failed_day)),
            leftovers=Leftovers(
                terminating=left.terminating,
                stuck=LeftoverList.of(left.stuck),
                orphans=LeftoverList.of(left.orphans),
            ),
            warmth=Warmth(
                hour=Warm.of(seen.warm_hour, more=False), day=Warm.of(seen.warm_day, more=seen.warm_more)
            ),
            jobs=JobSummary.of(seen.jobs),
            pools=Pools.of(seen.pools),
            brakes=Pauses(all=None in seen.paused, templates=tuple(name for name in seen.paused if name)),
            duties=tuple(Duty.of(each) for each in seen.duties),
            providers=tuple(Dependency.of(each) for each in seen.dependencies),
            store=StoreCalls.of(seen.store),
            held=HeldNodes.of(seen.held),
            undelivered=tuple(convert(Backlog, each) for each in seen.undelivered),
        )
