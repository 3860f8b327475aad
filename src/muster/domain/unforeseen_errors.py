"""Report operations that an unforeseen error stops or ended. Each is a bug, so each is named first."""

from collections.abc import Iterator

from muster.domain.findings import About, Culprit, Finding
from muster.domain.observations import MINUTE, Observations, aged
from muster.domain.progress import Tone
from muster.domain.reasons import ADVICE, Reason
from muster.domain.text import counted

NAMED = 3
_ADVICE = ADVICE[Reason.INTERNAL][:1].upper() + ADVICE[Reason.INTERNAL][1:]
RECENT = 10 * MINUTE
"""Seconds after which it counts as over."""


def unforeseen(signs: Observations) -> Iterator[Finding]:
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
