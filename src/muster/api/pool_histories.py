"""Put the history of pools together from samples, hand-overs, boots and failures. Decides nothing."""

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import median

from muster.domain.failures import Failed
from muster.domain.overview import Handover
from muster.domain.pool_history import EVERY, KEPT, lines
from muster.domain.template import Template
from muster.ports.bundle import Ports
from muster.wire.base import at
from muster.wire.pool_history import PoolHistory, PoolPoint, TemplateHistory

POINTS = 288
"""Points of a line: five minutes each over a day."""
SAMPLES_MOST = int(KEPT / EVERY) + 1
HANDOVERS_MOST = 2000
FAILURES_MOST = 2000


async def history(ports: Ports, *, hours: int, template: str | None, now: float) -> PoolHistory:
    """Return the history of one template, or of all."""
    since = now - hours * 3600.0
    samples = await ports.overview.pool_samples(since=since, limit=SAMPLES_MOST)
    began = samples[0].at if samples else now
    step = max(1, ceil((now - began) / POINTS / EVERY)) * EVERY
    drawn = lines(samples, since=began, step=step)
    known = {each.name: each for each in await ports.store.templates() if template in (None, each.name)}
    handed = _by_template(await ports.overview.handovers(since=since, limit=HANDOVERS_MOST))
    failures = await ports.overview.failures(since=since, limit=FAILURES_MOST)
    failed = [each.template for each in failures if each.what is Failed.NODE]
    names = sorted({*known, *(name for name in drawn if template in (None, name))})
    items = []
    for name in names:
        booted = await _boots(ports, known.get(name), since)
        items.append(
            TemplateHistory(
                template=name,
                points=tuple(PoolPoint.of(point) for point in drawn.get(name, ())),
                ready=TemplateHistory.ready_of(handed.get(name, ())),
                boots=len(booted),
                boot_p50=round(median(booted), 3) if booted else None,
                failed=failed.count(name),
            )
        )
    return PoolHistory(since=at(began), until=at(now), step_seconds=step, items=tuple(items))


def _by_template(handovers: Sequence[Handover]) -> Mapping[str, list[Handover]]:
    found: dict[str, list[Handover]] = {}
    for each in handovers:
        found.setdefault(each.template or "", []).append(each)
    return found


async def _boots(ports: Ports, template: Template | None, since: float) -> list[float]:
    """Return how long each boot of the present revision took that ended since a time."""
    if template is None:
        return []
    boots = await ports.store.boots(template.name, template.revision)
    return [boot.seconds for boot in boots if boot.booted_at >= since]
