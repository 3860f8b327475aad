"""Judge observations: return findings, the worst first.

Owns the limits. Each rule looks at one kind of observation. Its finding names the thing, the fact and the
next act. A rule with too few calls to judge says nothing.
"""

from collections.abc import Iterator, Sequence

from muster.domain.failures import Group
from muster.domain.findings import ORDER, About, Culprit, Finding, culprit_of, ranked
from muster.domain.health import Health
from muster.domain.observations import (
    MINUTE,
    Calls,
    ClusterSign,
    Dependency,
    DutyObservation,
    Observations,
    aged,
    in_all,
)
from muster.domain.progress import Tone
from muster.domain.reasons import ADVICE, Reason
from muster.domain.text import counted
from muster.domain.undelivered import Backlog
from muster.domain.wait_reasons import Waiting, WaitsFor
from muster.domain.work_findings import job_findings, unforeseen

LEAST_CALLS = 5
"""Fewer calls say nothing about a rate."""
FAILING, DOUBTFUL = 0.5, 0.1
"""Shares of failed calls: danger from the first on, a warning from the second on."""
THROTTLED = 0.2
STORE_STOPS, STORE_SLOW = 1.0, 0.1
"""Seconds that one call in twenty exceeds. A healthy store takes a few milliseconds."""
FEW = 3
"""This many failures of one cause are more than chance."""
UNDRIVEN = 30.0
QUEUED = 60.0
MOST = 0.5
UNDELIVERED = 60.0
"""Seconds that messages of a webhook may wait: a receiver that restarts takes less."""
RECENT = 10 * MINUTE
"""Seconds after which a failure counts as over and is ranked below present findings."""


def judge(signs: Observations) -> tuple[Finding, ...]:
    """Return all findings, present ones before past ones, then the worst first."""
    found = [
        *unforeseen(signs),
        *_store(signs.store),
        *_duties(signs.duties, signs.now),
        *_undriven(signs.waiting, signs.now),
        *_dependencies(signs.dependencies),
        *_clusters(signs.clusters),
        *_failures(signs),
        *_starved(signs),
        *_silence(signs),
        *_unwell(signs),
        *_leftovers(signs),
        *job_findings(signs),
        *_undelivered(signs.undelivered, signs.now),
        *_brakes(signs),
        *_queue(signs.waiting, signs.now),
    ]
    return ranked(found)


def all_well(signs: Observations, *, acknowledged: int = 0) -> Finding:
    under_way = sum(group.count for group in signs.waiting)
    waits = f"{counted(under_way, 'operation')} under way" if under_way else "nothing waits"
    nodes = counted(sum(in_all(signs.health).values()), "node")
    known = f" {counted(acknowledged, 'finding')} acknowledged." if acknowledged else ""
    return Finding(
        code="all_well",
        tone=Tone.SUCCESS,
        culprit=Culprit.NONE,
        text=f"{'No new findings' if acknowledged else 'All is well'}: {nodes} up, {waits}.{known}",
        advice="",
    )


def tone_of_store(store: Calls) -> Tone:
    """Judge the calls to the store. PENDING: too few calls."""
    rate, p95 = store.error_rate, store.p95
    if rate is None or store.calls < LEAST_CALLS:
        return Tone.PENDING
    if rate >= DOUBTFUL or (p95 is not None and p95 > STORE_STOPS):
        return Tone.DANGER
    return Tone.WARNING if p95 is not None and p95 > STORE_SLOW else Tone.SUCCESS


def tone_of(calls: Calls) -> Tone:
    """Judge the calls to a provider, or to the service behind a runtime. PENDING: too few calls."""
    rate = calls.error_rate
    if rate is None or calls.calls < LEAST_CALLS:
        return Tone.PENDING
    if rate >= FAILING:
        return Tone.DANGER
    return Tone.WARNING if rate >= DOUBTFUL or calls.throttled / calls.calls >= THROTTLED else Tone.SUCCESS


def _store(store: Calls) -> Iterator[Finding]:
    tone = tone_of_store(store)
    if tone not in ORDER:
        return
    about = About(kind="store", id="store")
    if store.errors / store.calls >= DOUBTFUL:
        yield Finding(
            code="store_failing",
            tone=tone,
            culprit=Culprit.US,
            text=f"The store failed {store.errors} of {store.calls} calls in the last {aged(store.window)}.",
            advice="Check the store: `muster store check`. Running work goes on; new work waits.",
            about=about,
        )
    elif store.p95 is not None:
        yield Finding(
            code="store_slow",
            tone=tone,
            culprit=Culprit.US,
            text=f"The store is slow: 5% of its calls take more than {STORE_SLOW * 1000:g} ms"
            f" (p95 up to {store.p95 * 1000:g} ms).",
            advice="Check the load of this machine and of the disk or database behind Muster.",
            about=about,
        )


def _duties(duties: Sequence[DutyObservation], now: float) -> Iterator[Finding]:
    late = [duty for duty in duties if duty.late]
    if late:
        listed = _listed([f"{duty.name} ({_overdue(duty, now)})" for duty in late])
        yield Finding(
            code="duty_late",
            tone=Tone.DANGER,
            culprit=Culprit.US,
            text=f"{counted(len(late), 'controller')} {'is' if len(late) == 1 else 'are'} overdue: {listed}.",
            advice="Check the store's latency: `muster status --report`. Then read the server's log.",
            about=About(kind="duty", id=late[0].name),
        )
    for duty in duties:
        if duty.problem and not duty.late:
            yield Finding(
                code="duty_interrupted",
                culprit=Culprit.US,
                text=f"The controller {duty.name} failed: {duty.problem}.",
                advice="It tries again. If this finding stays, read the server's log.",
                about=About(kind="duty", id=duty.name),
                subject=duty.name,
            )


def _overdue(duty: DutyObservation, now: float) -> str:
    return "never ran" if duty.ticked_at is None else aged(now - duty.ticked_at)


def _undriven(waiting: Sequence[Waiting], now: float) -> Iterator[Finding]:
    for group in waiting:
        age = now - group.oldest_since
        if group.reason is WaitsFor.DRIVER and age > UNDRIVEN:
            yield Finding(
                code="undriven",
                tone=Tone.DANGER,
                culprit=Culprit.US,
                text=f"No replica works on {counted(group.count, 'operation')},"
                f" the oldest waits for {aged(age)}.",
                advice="Check that a server runs and is not overloaded: `muster status --report`.",
                about=About(kind="operation", id=group.operation_ids[0]),
            )


def _dependencies(dependencies: Sequence[Dependency]) -> Iterator[Finding]:
    for each in dependencies:
        calls, tone = each.calls, tone_of(each.calls)
        if tone not in ORDER:
            continue
        about = About(kind="provider", id=each.name)
        if calls.errors / calls.calls >= DOUBTFUL:
            yield Finding(
                code="provider_failing",
                tone=tone,
                culprit=each.culprit,
                text=f"{each.name} failed {calls.errors} of {calls.calls} calls"
                f" in the last {aged(calls.window)}.",
                advice="Run `muster doctor` on this machine."
                if each.culprit is Culprit.MACHINE
                else "Check its status page, credentials and network. New nodes wait until it answers.",
                about=about,
                subject=each.name,
            )
        else:
            yield Finding(
                code="provider_throttles",
                culprit=each.culprit,
                text=f"{each.name} throttled {calls.throttled} of {calls.calls} calls.",
                advice="Ask the provider for a higher request limit, or reduce other use of the account.",
                about=about,
                subject=each.name,
            )


def _clusters(clusters: Sequence[ClusterSign]) -> Iterator[Finding]:
    for each in clusters:
        why = each.detail or (ADVICE[each.reason] if each.reason else "")
        if each.left:
            text = f"Cluster {each.name} failed, and its resources are still there"
            advice = f"Check them, then run `muster clusters delete {each.name}`. They may cost money."
        else:
            text = f"Cluster {each.name} can't be {'deleted' if each.deleting else 'created'}"
            advice = ADVICE[each.reason] if each.reason else "look at its operation"
            advice = f"{_sentence(advice)} Muster removes its resources."
        yield Finding(
            code="cluster_failed" if each.left else "cluster_failing",
            tone=Tone.DANGER if each.left else Tone.WARNING,
            culprit=culprit_of(each.reason) if each.reason else Culprit.TEMPLATE,
            text=f"{text}: {why}".rstrip(".: ") + ".",
            advice=advice,
            about=About(kind="operation", id=each.operation_id),
            subject=each.name,
            happened_at=each.since,
        )


def _failures(signs: Observations) -> Iterator[Finding]:
    told = [each.operation_id for each in signs.clusters]
    for group in signs.failures:
        if group.reason is Reason.COMMAND_FAILED:
            continue  # the caller's own command failed, not the fleet
        if group.count == 1 and group.operation_id in told:
            continue  # the finding of its cluster says the same
        handed = signs.handed_over.get(group.template or "", 0.0)
        blocked = handed < group.last_at
        named = group.reason is Reason.INTERNAL and not group.nodes  # `unforeseen` names each
        if named or (not blocked and group.count < FEW):
            continue
        age = signs.now - group.last_at
        over = not blocked or age > RECENT
        last = f", the last {aged(age)} ago" if over else ""
        yield Finding(
            code="failures",
            tone=Tone.WARNING if over or group.count < FEW else Tone.DANGER,
            culprit=culprit_of(group.reason, local=group.local),
            text=f"{_failed(group)} in the last hour{last}: {group.cause.replace('_', ' ')}.",
            advice=_sentence(group.advice),
            about=_example(group),
            subject=_subject(group.cause, group.template, group.revision),
            happened_at=group.last_at,
            over=over,
        )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _subject(*parts: object) -> str:
    return ".".join(str(part) for part in parts if part is not None)


def _failed(group: Group) -> str:
    what = counted(group.count, "node" if group.nodes else "operation")
    of = "" if group.template is None else f" of {group.template}"
    revision = "" if group.revision is None else f" revision {group.revision}"
    return f"{what}{of}{revision} failed"


def _example(group: Group) -> About | None:
    if group.node_id is not None:
        return About(kind="node", id=group.node_id)
    return None if group.operation_id is None else About(kind="operation", id=group.operation_id)


def _silence(signs: Observations) -> Iterator[Finding]:
    feeling = in_all(signs.health)
    silent, all_nodes = feeling[Health.OFFLINE], sum(feeling.values())
    elsewhere = any(
        each.get(Health.OFFLINE, 0) for name, each in signs.health.items() if name not in signs.local
    )
    if silent:
        many = silent >= FEW and silent / all_nodes >= MOST
        yield Finding(
            code="nodes_offline",
            tone=Tone.DANGER if many else Tone.WARNING,
            culprit=Culprit.US if many else Culprit.CLOUD if elsewhere else Culprit.MACHINE,
            text=f"No heartbeat from {silent} of {counted(all_nodes, 'node')}.",
            advice="Check the network between nodes and server."
            if many
            else "Check the machine: `muster nodes`. Muster replaces a node that stays offline.",
        )


def _unwell(signs: Observations) -> Iterator[Finding]:
    """Report a template without one healthy node. `_silence` reports nodes that are only offline."""
    for template, feeling in signs.health.items():
        troubled, silent = feeling.get(Health.DEGRADED, 0), feeling.get(Health.OFFLINE, 0)
        nodes = sum(feeling.values())
        if not troubled or troubled + silent < nodes:
            continue
        others = f", {silent} offline" if silent else ""
        yield Finding(
            code="template_unwell",
            tone=Tone.DANGER if nodes >= FEW else Tone.WARNING,
            culprit=Culprit.TEMPLATE,
            text=f"No node of {template} is healthy: {troubled} of {nodes} degraded{others}.",
            advice="See why: `muster nodes show NODE`. If a new revision caused it, apply the previous one.",
            about=About(kind="template", id=template),
            subject=template,
        )


def _starved(signs: Observations) -> Iterator[Finding]:
    for pool in signs.starved:
        yield Finding(
            code="starved",
            culprit=Culprit.TEMPLATE,
            text=f"{pool.template} should keep {pool.wanted} warm and has {pool.has}: {pool.why}",
            advice="Configure the server for this template, or change and apply the template.",
            about=About(kind="template", id=pool.template),
            subject=pool.template,
        )


def _leftovers(signs: Observations) -> Iterator[Finding]:
    if signs.stuck:
        oldest = signs.stuck[0]
        yield Finding(
            code="stuck_terminating",
            culprit=Culprit.MACHINE if oldest.template in signs.local else Culprit.CLOUD,
            text=f"Muster can't terminate {counted(len(signs.stuck), 'machine')}, the oldest for"
            f" {aged(signs.now - oldest.entered_at)}.",
            advice="Terminate them at the provider by hand. They may still cost money.",
            about=About(kind="node", id=oldest.id),
            happened_at=max(node.entered_at for node in signs.stuck),
        )
    if signs.orphans:
        yield Finding(
            code="orphans",
            culprit=Culprit.US,
            text=f"Muster terminates {counted(len(signs.orphans), 'machine')} without a record.",
            advice="If this repeats, look for another program that uses this installation's tag.",
            about=About(kind="node", id=signs.orphans[0].id),
            happened_at=max(node.entered_at for node in signs.orphans),
        )


def _undelivered(backlogs: Sequence[Backlog], now: float) -> Iterator[Finding]:
    for each in backlogs:
        about = About(kind="webhook", id=each.webhook)
        if each.removed:
            yield Finding(
                code="webhook_removed",
                culprit=Culprit.OPERATOR,
                text=f"Webhook {each.webhook} is no longer in the settings, and has"
                f" {counted(each.waiting + each.given_up, 'undelivered message')}.",
                advice=f"Add it to the settings again, or `muster webhooks forget {each.webhook}`.",
                about=about,
                subject=each.webhook,
            )
            continue
        if each.oldest_since is not None and now - each.oldest_since > UNDELIVERED:
            waits = f"{counted(each.waiting, 'message')} of webhook {each.webhook}"
            yield Finding(
                code="webhook_waits",
                culprit=Culprit.OPERATOR,
                text=f"{waits} {'waits' if each.waiting == 1 else 'wait'}, the oldest for"
                f" {aged(now - each.oldest_since)}: {each.problem}.",
                advice=f"Check the receiver: `muster webhooks test {each.webhook}`.",
                about=about,
                subject=each.webhook,
            )
        if each.given_up_at is not None:
            yield Finding(
                code="webhook_dropped",
                culprit=Culprit.OPERATOR,
                text=f"{counted(each.given_up, 'message')} of webhook {each.webhook}"
                f" {'was' if each.given_up == 1 else 'were'} given up, the last"
                f" {aged(now - each.given_up_at)} ago.",
                advice="See why: `muster webhooks undelivered`."
                f" Then `muster webhooks resend {each.webhook}`.",
                about=about,
                subject=each.webhook,
                happened_at=each.given_up_at,
                over=True,
            )


def _brakes(signs: Observations) -> Iterator[Finding]:
    if not signs.paused:
        return
    held = sum(group.count for group in signs.waiting if group.reason is WaitsFor.PAUSED)
    names = ["everything" if name is None else name for name in signs.paused]
    waits = f" {counted(held, 'operation')} {'waits' if held == 1 else 'wait'}." if held else ""
    one = next((name for name in signs.paused if name is not None), None)
    resume = "muster resume" if None in signs.paused else f"muster resume {one}"
    yield Finding(
        code="paused",
        culprit=Culprit.OPERATOR,
        text=f"Paused: {_listed(names)}.{waits}",
        advice=f"Resume when the reason is gone: `{resume}`.",
        about=None if one is None else About(kind="template", id=one),
        subject=".".join(names),
    )


def _queue(waiting: Sequence[Waiting], now: float) -> Iterator[Finding]:
    for group in waiting:
        age = now - group.oldest_since
        if group.reason is WaitsFor.ROOM and age > QUEUED:
            yield Finding(
                code="no_room",
                culprit=Culprit.DEMAND,
                text=f"{counted(group.count, 'operation')} {group.text}, the oldest for {aged(age)}.",
                advice="Raise max_nodes, release nodes that are not needed, or wait.",
                about=About(kind="operation", id=group.operation_ids[0]),
            )


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:FEW])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
