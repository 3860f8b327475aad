"""Boots over the wire: where the time of one went, and how long a template's take."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from muster.api.models.base import EXAMPLE_TIME, Out, at, example, maybe_at
from muster.domain import boot as boots
from muster.domain.boot import Boot, Distribution, Learned, Mark, Span
from muster.domain.deadlines import Deadline
from muster.domain.node import Node
from muster.domain.template import Template

SHOWN_LAST = 20
SPAN_EXAMPLE = {"name": "boot_script", "seconds": 41.5}
DISTRIBUTION_EXAMPLE = {"count": 57, "p50": 44.0, "p95": 61.0, "p99": 70.2, "longest": 70.2}


class SpanOut(Out):
    name: str
    seconds: float

    @classmethod
    def of(cls, span: Span) -> Self:
        return cls(name=span.name, seconds=round(span.seconds, 3))


class DistributionOut(Out):
    count: int
    p50: float
    p95: float
    p99: float
    longest: float

    @classmethod
    def of(cls, found: Distribution | None) -> Self | None:
        if found is None:
            return None
        return cls(count=found.count, p50=found.p50, p95=found.p95, p99=found.p99, longest=found.longest)


class TimelineOut(Out):
    """Where the time of one boot went, so far or in all, beside how long its kind usually takes."""

    model_config = example(
        {
            "node_id": "node-1hx2k9q0c7m3t8v5e2",
            "created_at": EXAMPLE_TIME,
            "booted_at": EXAMPLE_TIME,
            "seconds": 44.0,
            "spans": [{"name": "launch", "seconds": 2.5}, SPAN_EXAMPLE],
            "usual": DISTRIBUTION_EXAMPLE,
        }
    )

    node_id: str
    created_at: datetime
    booted_at: datetime | None
    seconds: float
    spans: list[SpanOut]
    usual: DistributionOut | None

    @classmethod
    def of(cls, node: Node, marks: Sequence[Mark], kin: Sequence[Boot], *, now: float) -> Self:
        """A boot that failed lasted until it was given up, whatever became of the node after that."""
        given_up = boots.given_up_at(marks) or (node.entered_at if node.reason is not None else now)
        until = node.booted_at or given_up
        return cls(
            node_id=node.id,
            created_at=at(node.created_at),
            booted_at=maybe_at(node.booted_at),
            seconds=round(max(0.0, until - node.created_at), 3),
            spans=[SpanOut.of(span) for span in boots.spans(node.created_at, marks, until)],
            usual=DistributionOut.of(
                boots.distribution([boot.seconds for boot in kin if boot.node_id != node.id])
            ),
        )


class BootedOut(Out):
    node_id: str
    booted_at: datetime
    seconds: float


class DeadlineOut(Out):
    seconds: float
    source: str


class LearnedOut(Out):
    seconds: float
    basis: str


class KindOut(Out):
    """The boots of one instance type."""

    instance_type: str
    total: DistributionOut
    phases: list[SpanOut]
    """The middle of each phase, in the order of the last boot."""
    last: list[BootedOut]
    """Newest first."""
    seconds: list[float]
    """How long each of the boots took that are still known, newest first."""
    learned: LearnedOut | None
    """What the tail of these boots may lengthen the deadline to; None: too few, or switched off."""
    deadline: DeadlineOut
    """What a boot of this type is given now, and where that comes from."""

    @classmethod
    def of(cls, boots_of_kind: Sequence[Boot], learned: Learned | None, deadline: Deadline) -> Self:
        total = DistributionOut.of(boots.distribution([boot.seconds for boot in boots_of_kind]))
        assert total is not None  # noqa: S101 — a kind is made of its boots
        last = sorted(boots_of_kind, key=lambda boot: boot.booted_at, reverse=True)
        return cls(
            instance_type=last[0].instance_type,
            total=total,
            phases=[SpanOut.of(span) for span in boots.typical(last)],
            last=[
                BootedOut(node_id=boot.node_id, booted_at=at(boot.booted_at), seconds=round(boot.seconds, 3))
                for boot in last[:SHOWN_LAST]
            ],
            seconds=[round(boot.seconds, 3) for boot in last],
            learned=LearnedOut(seconds=learned.seconds, basis=learned.basis) if learned else None,
            deadline=DeadlineOut(seconds=deadline.seconds, source=deadline.source),
        )


class BootsOut(Out):
    """How long the boots of a template's present revision take."""

    model_config = example(
        {
            "template": "ci",
            "revision": 3,
            "deadline": {"seconds": 720.0, "source": "default"},
            "ceiling_seconds": 1440.0,
            "kinds": [
                {
                    "instance_type": "local",
                    "total": DISTRIBUTION_EXAMPLE,
                    "phases": [SPAN_EXAMPLE],
                    "last": [
                        {"node_id": "node-1hx2k9q0c7m3t8v5e2", "booted_at": EXAMPLE_TIME, "seconds": 44.0}
                    ],
                    "seconds": [44.0, 61.0],
                    "learned": {"seconds": 105.3, "basis": "p99 of 57 boots"},
                    "deadline": {"seconds": 720.0, "source": "default"},
                }
            ],
        }
    )

    template: str
    revision: int
    deadline: DeadlineOut
    """What a boot of a type that was never seen is given."""
    ceiling_seconds: float
    """As far as extensions may go."""
    kinds: list[KindOut]

    @classmethod
    def of(cls, template: Template, deadline: Deadline, ceiling: float, kinds: list[KindOut]) -> Self:
        return cls(
            template=template.name,
            revision=template.revision,
            deadline=DeadlineOut(seconds=deadline.seconds, source=deadline.source),
            ceiling_seconds=ceiling,
            kinds=kinds,
        )
