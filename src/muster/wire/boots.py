"""Boots: where the time of one went, and how long a template's take."""

from collections.abc import Iterable, Sequence
from typing import Self

from muster.domain import boot as domain
from muster.domain import deadlines
from muster.domain.boot import Boot, Distribution, Learned, Mark, Span
from muster.domain.deadlines import Deadline, Limits
from muster.domain.node import Node
from muster.domain.template import Template
from muster.wire.base import EXAMPLE_TIME, Shape, Time, convert

SHOWN_LAST = 20
SPAN_EXAMPLE = {"name": "boot_script", "seconds": 41.5}
DISTRIBUTION_EXAMPLE = {"count": 57, "p50": 44.0, "p95": 61.0, "p99": 70.2, "longest": 70.2}


class Timeline(Shape):
    """Where the time of one boot went, so far or in all, beside how long its kind usually takes."""

    EXAMPLE = {
        "node_id": "node-1hx2k9q0c7m3t8v5e2",
        "created_at": EXAMPLE_TIME,
        "booted_at": EXAMPLE_TIME,
        "seconds": 44.0,
        "spans": [{"name": "launch", "seconds": 2.5}, SPAN_EXAMPLE],
        "usual": DISTRIBUTION_EXAMPLE,
    }

    node_id: str
    created_at: Time
    booted_at: Time | None = None
    seconds: float
    spans: tuple[Span, ...]
    usual: Distribution | None = None

    @classmethod
    def of(cls, node: Node, marks: Sequence[Mark], kin: Sequence[Boot], *, now: float) -> Self:
        """Return a boot's timeline. A failed boot lasted until it was given up."""
        given_up = domain.given_up_at(marks) or (node.entered_at if node.reason is not None else now)
        until = node.booted_at or given_up
        return convert(
            cls,
            node,
            node_id=node.id,
            seconds=round(max(0.0, until - node.created_at), 3),
            spans=_rounded(domain.spans(node.created_at, marks, until)),
            usual=domain.distribution([boot.seconds for boot in kin if boot.node_id != node.id]),
        )


class Booted(Shape):
    node_id: str
    booted_at: Time
    seconds: float


class BootKind(Shape):
    """The boots of one instance type."""

    instance_type: str
    total: Distribution
    phases: tuple[Span, ...]
    """The middle of each phase, in the order of the last boot."""
    last: tuple[Booted, ...]
    """Newest first."""
    seconds: tuple[float, ...] = ()
    """How long each of the boots took that are still known, newest first."""
    learned: Learned | None = None
    """What the tail of these boots may lengthen the deadline to; null: too few, or switched off."""
    deadline: Deadline
    """What a boot of this type is given now, and where that comes from."""

    @classmethod
    def of(cls, boots: Sequence[Boot], learned: Learned | None, deadline: Deadline) -> Self:
        total = domain.distribution([boot.seconds for boot in boots])
        assert total is not None  # noqa: S101 — a kind is made of its boots
        last = sorted(boots, key=lambda boot: boot.booted_at, reverse=True)
        return cls(
            instance_type=last[0].instance_type,
            total=total,
            phases=_rounded(domain.typical(last)),
            last=tuple(convert(Booted, boot, seconds=round(boot.seconds, 3)) for boot in last[:SHOWN_LAST]),
            seconds=tuple(round(boot.seconds, 3) for boot in last),
            learned=learned,
            deadline=deadline,
        )


class Boots(Shape):
    """How long the boots of a template's present revision take."""

    EXAMPLE = {
        "template": "ci",
        "revision": 3,
        "deadline": {"seconds": 720.0, "source": "default"},
        "ceiling_seconds": 1440.0,
        "stall_after_seconds": 300.0,
        "attach_seconds": 30.0,
        "kinds": [
            {
                "instance_type": "local",
                "total": DISTRIBUTION_EXAMPLE,
                "phases": [SPAN_EXAMPLE],
                "last": [{"node_id": "node-1hx2k9q0c7m3t8v5e2", "booted_at": EXAMPLE_TIME, "seconds": 44.0}],
                "seconds": [44.0, 61.0],
                "learned": {"seconds": 105.3, "basis": "p99 of 57 boots"},
                "deadline": {"seconds": 720.0, "source": "default"},
            }
        ],
    }

    template: str
    revision: int
    deadline: Deadline
    """What a boot of a type that was never seen is given."""
    ceiling_seconds: float
    """As far as extensions may go."""
    stall_after_seconds: float
    """A boot without a sign of advance for this long is stuck."""
    attach_seconds: float
    """How long an attach may take."""
    kinds: tuple[BootKind, ...]

    @classmethod
    def of(cls, template: Template, limits: Limits, deadline: Deadline, kinds: Iterable[BootKind]) -> Self:
        return cls(
            template=template.name,
            revision=template.revision,
            deadline=deadline,
            ceiling_seconds=deadlines.max_boot(template.spec, limits),
            stall_after_seconds=template.spec.stall_after or limits.stall_after,
            attach_seconds=deadlines.attach_timeout(template.spec, limits),
            kinds=tuple(kinds),
        )


def _rounded(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(Span(name=span.name, seconds=round(span.seconds, 3)) for span in spans)
