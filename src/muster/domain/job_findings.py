"""Judge what is known of jobs: causes that keep them waiting, and sources with a problem."""

from collections.abc import Iterator

from muster.domain.findings import About, Culprit, Finding
from muster.domain.job_causes import Unserved
from muster.domain.observations import Observations, aged
from muster.domain.progress import Tone
from muster.domain.text import counted

WAITS_LONG = 120.0
"""Seconds that a job may wait before its cause becomes a finding. A machine boots in that time."""
_CULPRITS = {
    Unserved.NO_TEMPLATE: Culprit.DEMAND,
    Unserved.NOT_ALLOWED: Culprit.DEMAND,
    Unserved.PAUSED: Culprit.OPERATOR,
    Unserved.CAP: Culprit.DEMAND,
    Unserved.CAPACITY: Culprit.CLOUD,
    Unserved.GROUP: Culprit.RUNTIME,
    Unserved.REGISTRATION: Culprit.RUNTIME,
    Unserved.THROTTLED: Culprit.RUNTIME,
    Unserved.TAKEN: Culprit.DEMAND,
    Unserved.FAILED: Culprit.TEMPLATE,
    Unserved.INVALID: Culprit.DEMAND,
    Unserved.SOURCE: Culprit.RUNTIME,
}


def job_findings(signs: Observations) -> Iterator[Finding]:
    for group in signs.unserved:
        age = signs.now - group.oldest_since
        if age <= WAITS_LONG:
            continue
        waits = "waits" if group.count == 1 else "wait"
        yield Finding(
            code="jobs_unserved",
            tone=Tone.WARNING,
            culprit=_CULPRITS[group.cause],
            text=f"{counted(group.count, 'job')} {waits}, the oldest for {aged(age)}: {group.text}.",
            advice=f"{group.advice[:1].upper()}{group.advice[1:]}. See `muster jobs why {group.example}`.",
            about=About(kind="job", id=group.example),
            subject=group.cause.value,
            happened_at=group.oldest_since,
        )
    for source in signs.job_sources:
        if source.problem:
            since = source.failing_since
            lasts = "" if since is None else f" For {aged(signs.now - since)}."
            yield Finding(
                code="job_source",
                tone=Tone.WARNING,
                culprit=Culprit.RUNTIME,
                text=f"{source.queue or source.source}: {source.problem.rstrip('.')}.{lasts}",
                advice="Run `muster doctor` and see `muster jobs`.",
                subject=f"{source.source}.{source.queue}".rstrip("."),
                happened_at=since,
            )
