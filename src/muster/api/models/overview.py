"""The overview over the wire. Every block stands for itself: a page leaves out what it doesn't know."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from muster.api.models.base import EXAMPLE_TIME, Out, at, example, maybe_at
from muster.api.models.machinery import CallsOut, DependencyOut, DutyOut
from muster.api.models.nodes import PoolsOut
from muster.api.models.templates import PausesOut
from muster.domain.changing import Change
from muster.domain.events import Entity
from muster.domain.failures import Group
from muster.domain.health import Health
from muster.domain.holding import SHOWN as RUNS_MOST
from muster.domain.holding import Holding
from muster.domain.node import Node
from muster.domain.overview import GROUPS_MOST, LEFTOVERS_MOST, Counted, Failures, Leftovers, Overview, Runs
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.verdicts import Culprit, Finding
from muster.domain.waiting import Waiting, WaitsFor
from muster.domain.warmth import Warmth


class AboutOut(Out):
    kind: str
    """provider, template, node, operation, duty or store."""
    id: str


class FindingOut(Out):
    code: str
    tone: Tone
    culprit: Culprit
    text: str
    advice: str
    about: AboutOut | None

    @classmethod
    def of(cls, found: Finding) -> Self:
        return cls(
            code=found.code,
            tone=found.tone,
            culprit=found.culprit,
            text=found.text,
            advice=found.advice,
            about=None if found.about is None else AboutOut(kind=found.about.kind, id=found.about.id),
        )


class WaitingOut(Out):
    reason: WaitsFor
    text: str
    count: int
    oldest_since: datetime
    operation_ids: list[str]
    """The oldest few."""

    @classmethod
    def of(cls, group: Waiting) -> Self:
        return cls(
            reason=group.reason,
            text=group.text,
            count=group.count,
            oldest_since=at(group.oldest_since),
            operation_ids=list(group.operation_ids),
        )


class WaitingsOut(Out):
    count: int
    more: bool
    """There are more than were looked at."""
    reasons: list[WaitingOut]
    """The one with the oldest first."""

    @classmethod
    def of(cls, found: Counted) -> Self:
        reasons = [WaitingOut.of(each) for each in found.groups]
        return cls(count=found.count, more=found.more, reasons=reasons)


class HeldOut(Out):
    node_id: str
    health: Health | None
    health_reason: str
    drain: bool


class RunOut(Out):
    operation_id: str | None
    """The provision that handed the nodes over; null: apps that enrolled by themselves."""
    run: str | None
    template: str
    since: datetime
    deadline_at: datetime | None
    """When the first of them must be given back."""
    count: int
    unwell: int
    nodes: list[HeldOut]
    """A few, the unwell first."""

    @classmethod
    def of(cls, found: Holding) -> Self:
        nodes = [
            HeldOut(
                node_id=each.node_id, health=each.health, health_reason=each.health_reason, drain=each.drain
            )
            for each in found.nodes
        ]
        return cls(
            operation_id=found.operation_id,
            run=found.run,
            template=found.template,
            since=at(found.since),
            deadline_at=maybe_at(found.deadline_at),
            count=found.count,
            unwell=found.unwell,
            nodes=nodes,
        )


class RunsOut(Out):
    count: int
    more: bool
    """There are more running nodes than were looked at."""
    items: list[RunOut]
    """Those with an unwell node first, then whose time ends first."""

    @classmethod
    def of(cls, found: Runs) -> Self:
        items = [RunOut.of(each) for each in found.items[:RUNS_MOST]]
        return cls(count=len(found.items), more=found.more, items=items)


class GroupOut(Out):
    cause: str
    """What the diagnosis says, else the reason's code."""
    diagnosed: bool
    reason: Reason
    template: str | None
    revision: int | None
    count: int
    nodes: int
    operations: int
    first_at: datetime
    last_at: datetime
    example_node_id: str | None
    example_operation_id: str | None
    detail: str
    advice: str

    @classmethod
    def of(cls, group: Group) -> Self:
        return cls(
            cause=group.cause,
            diagnosed=group.diagnosed,
            reason=group.reason,
            template=group.template,
            revision=group.revision,
            count=group.count,
            nodes=group.nodes,
            operations=group.operations,
            first_at=at(group.first_at),
            last_at=at(group.last_at),
            example_node_id=group.node_id,
            example_operation_id=group.operation_id,
            detail=group.detail,
            advice=group.advice,
        )


class FailedOut(Out):
    count: int
    more: bool
    groups: list[GroupOut]
    """Most frequent first."""

    @classmethod
    def of(cls, found: Failures) -> Self:
        groups = [GroupOut.of(group) for group in found.groups[:GROUPS_MOST]]
        return cls(count=found.count, more=found.more, groups=groups)


class FailuresOut(Out):
    hour: FailedOut
    day: FailedOut


class LeftoverOut(Out):
    node_id: str
    machine_id: str
    provider: str
    template: str
    since: datetime
    reason: Reason | None
    detail: str

    @classmethod
    def of(cls, node: Node) -> Self:
        return cls(
            node_id=node.id,
            machine_id=node.machine_id,
            provider=node.provider,
            template=node.template,
            since=at(node.entered_at),
            reason=node.reason,
            detail=node.detail,
        )


class LeftoverListOut(Out):
    count: int
    items: list[LeftoverOut]
    """Longest first."""

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Self:
        return cls(count=len(nodes), items=[LeftoverOut.of(node) for node in nodes[:LEFTOVERS_MOST]])


class LeftoversOut(Out):
    terminating: int
    stuck: LeftoverListOut
    orphans: LeftoverListOut

    @classmethod
    def of(cls, found: Leftovers) -> Self:
        return cls(
            terminating=found.terminating,
            stuck=LeftoverListOut.of(found.stuck),
            orphans=LeftoverListOut.of(found.orphans),
        )


class ChangeOut(Out):
    id: str
    at: datetime
    what: str
    text: str
    who: str
    """Empty: not known."""
    entity: Entity
    entity_id: str
    template: str | None
    revision: int | None
    detail: str
    count: int

    @classmethod
    def of(cls, change: Change) -> Self:
        return cls(
            id=change.id,
            at=at(change.at),
            what=change.what,
            text=change.text,
            who=change.who,
            entity=change.entity,
            entity_id=change.entity_id,
            template=change.template,
            revision=change.revision,
            detail=change.detail,
            count=change.count,
        )


class ReadyOut(Out):
    count: int
    p50: float
    p95: float


class WarmOut(Out):
    provisions: int
    nodes: int
    warm: int
    rate: float | None
    more: bool
    ready: ReadyOut | None
    """Seconds from a request to its commit."""

    @classmethod
    def of(cls, found: Warmth, *, more: bool) -> Self:
        ready = found.ready
        return cls(
            provisions=found.provisions,
            nodes=found.nodes,
            warm=found.warm,
            rate=None if found.rate is None else round(found.rate, 4),
            more=more,
            ready=None
            if ready is None
            else ReadyOut(count=ready.count, p50=round(ready.p50, 3), p95=round(ready.p95, 3)),
        )


class WarmthOut(Out):
    hour: WarmOut
    day: WarmOut


_FINDING = {
    "code": "provider_failing",
    "tone": "danger",
    "culprit": "cloud",
    "text": "ec2 fails: 12 of 20 calls went wrong in the last 5 min.",
    "advice": "Check its status page, credentials and network; new nodes wait until it answers.",
    "about": {"kind": "provider", "id": "ec2"},
}


class OverviewOut(Out):
    """What is wrong, first; then what waits, failed, lingers, changed, and how much there is."""

    model_config = example({"at": EXAMPLE_TIME, "verdict": _FINDING, "findings": [_FINDING]})

    at: datetime
    replica: str
    """Who looked: `store` and `providers` are as this replica sees them."""
    verdict: FindingOut
    findings: list[FindingOut]
    waiting: WaitingsOut
    runs: RunsOut
    failures: FailuresOut
    leftovers: LeftoversOut
    changes: list[ChangeOut]
    warmth: WarmthOut
    pools: PoolsOut
    health: dict[Health, int]
    brakes: PausesOut
    duties: list[DutyOut]
    providers: list[DependencyOut]
    store: CallsOut

    @classmethod
    def of(cls, seen: Overview) -> Self:
        return cls(
            at=at(seen.at),
            replica=seen.replica,
            verdict=FindingOut.of(seen.verdict),
            findings=[FindingOut.of(each) for each in seen.findings],
            waiting=WaitingsOut.of(seen.waiting),
            runs=RunsOut.of(seen.runs),
            failures=FailuresOut(hour=FailedOut.of(seen.failed_hour), day=FailedOut.of(seen.failed_day)),
            leftovers=LeftoversOut.of(seen.leftovers),
            changes=[ChangeOut.of(each) for each in seen.changes],
            warmth=WarmthOut(
                hour=WarmOut.of(seen.warm_hour, more=False),
                day=WarmOut.of(seen.warm_day, more=seen.warm_more),
            ),
            pools=PoolsOut.of(seen.pools),
            health=dict(seen.health),
            brakes=PausesOut(all=None in seen.paused, templates=[name for name in seen.paused if name]),
            duties=[DutyOut.of(each) for each in seen.duties],
            providers=[DependencyOut.of(each) for each in seen.dependencies],
            store=CallsOut.of(seen.store),
        )
