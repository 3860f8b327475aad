"""Judge what is known of jobs and operations: jobs that wait, sources with a problem, unforeseen errors."""

from collections.abc import Iterator

from muster.domain.findings import About, Culprit, Finding
from muster.domain.jobs import Unserved
from muster.domain.observations import MINUTE, Observations, aged
from muster.domain.progress import Tone
from muster.domain.reasons import ADVICE, Reason
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
                culprit=Culprit.RUNTIME,
                text=f"{source.queue or source.source}: {source.problem.rstrip('.')}.{lasts}",
                advice="Run `muster doctor` and see `muster jobs`.",
                subject=f"{source.source}.{source.queue}".rstrip("."),
                happened_at=since,
            )


NAMED = 3
_ADVICE = ADVICE[Reason.INTERNAL][:1].upper() + ADVICE[Reason.INTERNAL][1:]
RECENT = 10 * MINUTE
"""Seconds after which it counts as over."""


def unforeseen(signs: Observations) -> Iterator[Finding]:
    """Report operations that an unforeseen error stops or ended. Each is a bug, so each is named first."""
    yield from _stuck(signs)
    yield from _internal(signs)


def _stuck(signs: Observations) -> Iterator[Finding]:
    if not signs.stuck_operations:
        return
    worst = signs.stuck_operations[0]
    late = signs.now - worst.deadline_at
    why = f"had {counted(worst.errors, 'unforeseen error')} in a row"
    if not worst.errors:
        why = f"is {aged(late)} past its deadline"
    others = len(signs.stuck_operations) - 1
    more = f"; {counted(others, 'other')} too" if others else ""
    yield Finding(
        code="operation_stuck",
        tone=Tone.DANGER,
        culprit=Culprit.US,
        text=f"Operation {worst.id} ({worst.kind.replace('_', ' ')}) {why}{more}.",
        advice="Muster ends it and gives its nodes back. Read the error in the server's log, and report it.",
        about=About(kind="operation", id=worst.id),
        subject=worst.id,
    )


def _internal(signs: Observations) -> Iterator[Finding]:
    for failure in signs.internal[:NAMED]:
        of = "" if failure.template is None else f" of {failure.template}"
        yield Finding(
            code="internal_error",
            tone=Tone.DANGER,
            culprit=Culprit.US,
            text=f"Operation {failure.id}{of} failed {aged(signs.now - failure.at)} ago: {failure.detail}.",
            advice=f"{_ADVICE}.",
            about=About(kind="operation", id=failure.id),
            subject=failure.id,
            happened_at=failure.at,
            over=signs.now - failure.at > RECENT,
        )
