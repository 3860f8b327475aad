"""What is wrong, first: us, the cloud, GitHub, a template, a brake that is pulled, or too much to do.

Owns the limits. Each rule looks at one kind of sign and says in a sentence what it found and what to do; the
worst finding is the verdict. Refuses to guess: without enough calls, an error rate is no sign.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.domain.counting import counted
from muster.domain.failures import Group
from muster.domain.health import Health
from muster.domain.progress import Tone
from muster.domain.reasons import Reason
from muster.domain.signs import Calls, Dependency, DutySign, Signs, aged, in_all
from muster.domain.waiting import Waiting, WaitsFor

LEAST_CALLS = 5
"""Fewer calls say nothing about a rate."""
FAILING, DOUBTFUL = 0.5, 0.1
"""Shares of calls that go wrong: from the first on, hardly anything gets through."""
THROTTLED = 0.2
STORE_STOPS, STORE_SLOW = 1.0, 0.1
"""Seconds that one call in twenty exceeds. A healthy store takes a few milliseconds."""
FEW = 3
"""So many failures of one cause are no accident."""
UNDRIVEN = 30.0
QUEUED = 60.0
MOST = 0.5


class Culprit(StrEnum):
    NONE = "none"
    US = "us"
    CLOUD = "cloud"
    GITHUB = "github"
    TEMPLATE = "template"
    OPERATOR = "operator"
    DEMAND = "demand"


_ORDER = (Tone.DANGER, Tone.WARNING)
_CULPRITS: dict[Reason, Culprit] = {
    Reason.CAPACITY: Culprit.CLOUD,
    Reason.QUOTA: Culprit.CLOUD,
    Reason.THROTTLED: Culprit.CLOUD,
    Reason.PROVIDER_REFUSED: Culprit.CLOUD,
    Reason.PROVIDER_ERROR: Culprit.CLOUD,
    Reason.PARTIAL_LAUNCH: Culprit.CLOUD,
    Reason.INTERRUPTED: Culprit.CLOUD,
    Reason.MACHINE_GONE: Culprit.CLOUD,
    Reason.CAP_REACHED: Culprit.DEMAND,
    Reason.ABOVE_CAP: Culprit.DEMAND,
    Reason.MAX_RUNTIME: Culprit.DEMAND,
    Reason.DEADLINE_EXCEEDED: Culprit.DEMAND,
    Reason.ORPHAN: Culprit.US,
    Reason.INTERNAL: Culprit.US,
}
"""Whose fault a reason is; of all others, the template is the first suspect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    tone: Tone
    culprit: Culprit
    text: str
    advice: str
    about: About | None = None


def judge(signs: Signs) -> tuple[Finding, ...]:
    """All that is wrong, the worst first; nothing if all is well."""
    found = [
        *_store(signs.store),
        *_duties(signs.duties),
        *_undriven(signs.waiting, signs.now),
        *_dependencies(signs.dependencies),
        *_failures(signs),
        *_starved(signs),
        *_silence(signs),
        *_unwell(signs),
        *_leftovers(signs),
        *_brakes(signs),
        *_queue(signs.waiting, signs.now),
    ]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.tone)))


def all_well(signs: Signs) -> Finding:
    under_way = sum(group.count for group in signs.waiting)
    waits = f"{counted(under_way, 'operation')} under way" if under_way else "nothing waits"
    nodes = counted(sum(in_all(signs.health).values()), "node")
    return Finding(
        code="all_well",
        tone=Tone.SUCCESS,
        culprit=Culprit.NONE,
        text=f"All is well: {nodes} up, {waits}.",
        advice="",
    )


def tone_of_store(store: Calls) -> Tone:
    """How its calls go, by the limits above; pending: too few to say."""
    rate, p95 = store.error_rate, store.p95
    if rate is None or store.calls < LEAST_CALLS:
        return Tone.PENDING
    if rate >= DOUBTFUL or (p95 is not None and p95 > STORE_STOPS):
        return Tone.DANGER
    return Tone.WARNING if p95 is not None and p95 > STORE_SLOW else Tone.SUCCESS


def tone_of(calls: Calls) -> Tone:
    """The same of somebody whom we call: their errors weigh, and that they slow us down."""
    rate = calls.error_rate
    if rate is None or calls.calls < LEAST_CALLS:
        return Tone.PENDING
    if rate >= FAILING:
        return Tone.DANGER
    return Tone.WARNING if rate >= DOUBTFUL or _throttling(calls) else Tone.SUCCESS


def _throttling(calls: Calls) -> bool:
    return calls.throttled / calls.calls >= THROTTLED


def _store(store: Calls) -> Iterator[Finding]:
    tone = tone_of_store(store)
    if tone not in _ORDER:
        return
    about = About(kind="store", id="store")
    if store.errors / store.calls >= DOUBTFUL:
        yield Finding(
            code="store_failing",
            tone=tone,
            culprit=Culprit.US,
            text=f"The store fails: {store.errors} of {store.calls} calls in the last {aged(store.window)}.",
            advice="Check the disk or database behind Muster; what runs goes on, nothing new begins.",
            about=about,
        )
    elif store.p95 is not None:
        yield Finding(
            code="store_slow",
            tone=tone,
            culprit=Culprit.US,
            text=f"The store is slow: one call in twenty takes longer than the limit of"
            f" {STORE_SLOW * 1000:g} ms (p95 up to {store.p95 * 1000:g} ms).",
            advice="Look at the load of this machine and of the disk or database behind Muster.",
            about=about,
        )


def _duties(duties: Sequence[DutySign]) -> Iterator[Finding]:
    late = [duty.name for duty in duties if duty.late]
    if late:
        yield Finding(
            code="duty_late",
            tone=Tone.DANGER,
            culprit=Culprit.US,
            text=f"Muster neglects its duties: {_listed(late)} did not tick in time.",
            advice="Check that a server runs and reaches its store; its log says what keeps it.",
            about=About(kind="duty", id=late[0]),
        )
    for duty in duties:
        if duty.problem and not duty.late:
            yield Finding(
                code="duty_interrupted",
                tone=Tone.WARNING,
                culprit=Culprit.US,
                text=f"The duty {duty.name} stopped short: {duty.problem}.",
                advice="It tries again by itself; if this stays, the server's log says more.",
                about=About(kind="duty", id=duty.name),
            )


def _undriven(waiting: Sequence[Waiting], now: float) -> Iterator[Finding]:
    for group in waiting:
        age = now - group.oldest_since
        if group.reason is WaitsFor.DRIVER and age > UNDRIVEN:
            yield Finding(
                code="undriven",
                tone=Tone.DANGER,
                culprit=Culprit.US,
                text=f"Nobody drives {counted(group.count, 'operation')}, the oldest for {aged(age)}.",
                advice="Check that a server runs, and that it isn't overloaded: a replica takes them over.",
                about=About(kind="operation", id=group.operation_ids[0]),
            )


def _dependencies(dependencies: Sequence[Dependency]) -> Iterator[Finding]:
    for each in dependencies:
        calls, tone = each.calls, tone_of(each.calls)
        if tone not in _ORDER:
            continue
        culprit = Culprit.GITHUB if each.github else Culprit.CLOUD
        about = About(kind="provider", id=each.name)
        if calls.errors / calls.calls >= DOUBTFUL:
            yield Finding(
                code="provider_failing",
                tone=tone,
                culprit=culprit,
                text=f"{each.name} fails: {calls.errors} of {calls.calls} calls went wrong"
                f" in the last {aged(calls.window)}.",
                advice="Check its status page, credentials and network; new nodes wait until it answers.",
                about=about,
            )
        else:
            yield Finding(
                code="provider_throttles",
                tone=Tone.WARNING,
                culprit=culprit,
                text=f"{each.name} slows us down: {calls.throttled} of {calls.calls} calls were throttled.",
                advice="Ask for a higher request limit, or share the account with fewer others.",
                about=about,
            )


def _failures(signs: Signs) -> Iterator[Finding]:
    for group in signs.failures:
        handed = signs.handed_over.get(group.template or "", 0.0)
        blocked = handed < group.last_at
        if not blocked and group.count < FEW:
            continue
        yield Finding(
            code="failures",
            tone=Tone.DANGER if blocked and group.count >= FEW else Tone.WARNING,
            culprit=_CULPRITS.get(group.reason, Culprit.TEMPLATE),
            text=f"{_failed(group)} in the last hour: {group.cause.replace('_', ' ')}.",
            advice=group.advice[:1].upper() + group.advice[1:] + ".",
            about=_example(group),
        )


def _failed(group: Group) -> str:
    what = counted(group.count, "node" if group.nodes else "operation")
    of = "" if group.template is None else f" of {group.template}"
    revision = "" if group.revision is None else f" revision {group.revision}"
    return f"{what}{of}{revision} failed"


def _example(group: Group) -> About | None:
    if group.node_id is not None:
        return About(kind="node", id=group.node_id)
    return None if group.operation_id is None else About(kind="operation", id=group.operation_id)


def _silence(signs: Signs) -> Iterator[Finding]:
    feeling = in_all(signs.health)
    silent, all_nodes = feeling[Health.OFFLINE], sum(feeling.values())
    if silent:
        many = silent >= FEW and silent / all_nodes >= MOST
        yield Finding(
            code="nodes_offline",
            tone=Tone.DANGER if many else Tone.WARNING,
            culprit=Culprit.US if many else Culprit.CLOUD,
            text=f"{silent} of {counted(all_nodes, 'node')} gave no sign of life for a while.",
            advice="Check the network between nodes and server."
            if many
            else "Look at the machine; if it stays silent, it is replaced by itself.",
        )


def _unwell(signs: Signs) -> Iterator[Finding]:
    """If no node of a template is well, it is not the nodes. Silence alone is told above."""
    for template, feeling in signs.health.items():
        troubled, silent = feeling.get(Health.DEGRADED, 0), feeling.get(Health.OFFLINE, 0)
        nodes = sum(feeling.values())
        if not troubled or troubled + silent < nodes:
            continue
        others = f", and {silent} give no sign of life" if silent else ""
        yield Finding(
            code="template_unwell",
            tone=Tone.DANGER if nodes >= FEW else Tone.WARNING,
            culprit=Culprit.TEMPLATE,
            text=f"No node of {template} is well: {troubled} of {nodes} work with trouble{others}.",
            advice="Look at what its nodes say; if that began with a new revision, apply the one before.",
            about=About(kind="template", id=template),
        )


def _starved(signs: Signs) -> Iterator[Finding]:
    for pool in signs.starved:
        yield Finding(
            code="starved",
            tone=Tone.WARNING,
            culprit=Culprit.TEMPLATE,
            text=f"{pool.template} should keep {pool.wanted} warm and has {pool.has}: {pool.why}",
            advice="Configure the server for it, or apply it with what the server has.",
            about=About(kind="template", id=pool.template),
        )


def _leftovers(signs: Signs) -> Iterator[Finding]:
    if signs.stuck:
        oldest = signs.stuck[0]
        yield Finding(
            code="stuck_terminating",
            tone=Tone.WARNING,
            culprit=Culprit.CLOUD,
            text=f"{counted(len(signs.stuck), 'machine')} won't end, the oldest for"
            f" {aged(signs.now - oldest.entered_at)}.",
            advice="End them at the provider by hand; they may still cost money.",
            about=About(kind="node", id=oldest.id),
        )
    if signs.orphans:
        yield Finding(
            code="orphans",
            tone=Tone.WARNING,
            culprit=Culprit.US,
            text=f"{counted(len(signs.orphans), 'machine')} without a record found; being given back.",
            advice="If this goes on, something else makes machines in Muster's name.",
            about=About(kind="node", id=signs.orphans[0].id),
        )


def _brakes(signs: Signs) -> Iterator[Finding]:
    if not signs.paused:
        return
    held = sum(group.count for group in signs.waiting if group.reason is WaitsFor.PAUSED)
    names = ["everything" if name is None else name for name in signs.paused]
    waits = f"; {counted(held, 'operation')} held back" if held else ""
    one = next((name for name in signs.paused if name is not None), None)
    yield Finding(
        code="paused",
        tone=Tone.WARNING,
        culprit=Culprit.OPERATOR,
        text=f"Paused: {_listed(names)}{waits}.",
        advice="Resume once the reason for the pause is gone.",
        about=None if one is None else About(kind="template", id=one),
    )


def _queue(waiting: Sequence[Waiting], now: float) -> Iterator[Finding]:
    for group in waiting:
        age = now - group.oldest_since
        if group.reason is WaitsFor.ROOM and age > QUEUED:
            yield Finding(
                code="no_room",
                tone=Tone.WARNING,
                culprit=Culprit.DEMAND,
                text=f"{counted(group.count, 'operation')} {group.text}, the oldest for {aged(age)}.",
                advice="Raise max_nodes, release what isn't needed, or wait.",
                about=About(kind="operation", id=group.operation_ids[0]),
            )


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:FEW])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
