"""The overview as Markdown: what one pastes into an incident first.

Names come from outside, so whatever could be read as markup is made harmless, and nothing is longer than a
line.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from muster.domain.failures import Group
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.observations import aged
from muster.domain.overview import Failures, Overview, Warmth
from muster.domain.text import counted

SHOWN = 10
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LONGEST = 300


def report(seen: Overview) -> str:
    blocks = (_head, _waiting, _runs, _held, _failures, _leftovers, _changes, _figures, _machinery)
    return "\n\n".join("\n".join(lines) for block in blocks if (lines := list(block(seen)))) + "\n"


def _head(seen: Overview) -> Iterator[str]:
    yield f"# Muster at {_time(seen.at)}"
    yield ""
    yield f"**{_plain(seen.verdict.text)}** {_plain(seen.verdict.advice)}".rstrip()
    for finding in seen.findings[1 : SHOWN + 1]:
        yield f"- {finding.tone}, {finding.culprit}: {_plain(finding.text)} {_plain(finding.advice)}".rstrip()
    for given in seen.acknowledged[:SHOWN]:
        yield f"- acknowledged by {_plain(given.actor)} at {_time(given.at)}: {_plain(given.finding.text)}"


def _waiting(seen: Overview) -> Iterator[str]:
    yield "## Waiting"
    for group in seen.waiting.groups:
        age = aged(seen.at - group.oldest_since)
        yield f"- {group.count} {group.text}, the oldest for {age}: {_listed(group.operation_ids)}"
    if not seen.waiting.groups:
        yield "Nothing."


def _runs(seen: Overview) -> Iterator[str]:
    if seen.runs.items:
        yield "## Runs with nodes"
    for each in seen.runs.items[:SHOWN]:
        name = _plain(each.run or f"apps of {each.template}")
        ends = "" if each.deadline_at is None else f", ends in {aged(each.deadline_at - seen.at)}"
        unwell = f", {each.unwell} unwell" if each.unwell else ""
        yield f"- {name}: {counted(each.count, 'node')} of {_plain(each.template)}{unwell}{ends}"
    more = len(seen.runs.items) - SHOWN
    if more > 0 or seen.runs.more:
        yield f"- and {'more' if seen.runs.more else f'{more} more'}"


def _held(seen: Overview) -> Iterator[str]:
    if seen.held:
        yield "## Kept for a look"
    for each in seen.held[:SHOWN]:
        node = each.node
        by = f" by {_plain(each.by)}" if each.by else ""
        ends = "" if node.deadline_at is None else f", ends in {aged(node.deadline_at - seen.at)}"
        yield f"- {node.id} of {_plain(node.template)} ({node.state}), kept{by}{ends}"
    if len(seen.held) > SHOWN:
        yield f"- and {len(seen.held) - SHOWN} more"


def _failures(seen: Overview) -> Iterator[str]:
    hour, day = seen.failed_hour, seen.failed_day
    yield "## Failed in the last hour"
    yield from _groups(hour, seen.at)
    yield "## Failed in the last day"
    if hour.groups and hour.groups == day.groups:
        yield "All of it in the last hour."
    else:
        yield from _groups(day, seen.at)


def _groups(failed: Failures, now: float) -> Iterator[str]:
    for group in failed.groups[:SHOWN]:
        yield _group(group, now)
    more = len(failed.groups) - SHOWN
    if more > 0:
        yield f"- and {more} more kinds of failure"
    if not failed.groups:
        yield "Nothing."


def _group(group: Group, now: float) -> str:
    of = "" if group.template is None else f" of {_plain(group.template)}"
    revision = "" if group.revision is None else f" revision {group.revision}"
    example = group.node_id or group.operation_id or ""
    said = f": {_plain(group.detail)}" if group.detail else ""
    return (
        f"- {group.count} × {group.cause}{of}{revision}, last {aged(now - group.last_at)} ago,"
        f" e.g. {_plain(example)}{said}"
    )


def _leftovers(seen: Overview) -> Iterator[str]:
    for title, nodes in (("Stuck terminating", seen.leftovers.stuck), ("Orphans", seen.leftovers.orphans)):
        if nodes:
            yield f"## {title}"
            yield from (_leftover(node, seen.at) for node in nodes[:SHOWN])


def _leftover(node: Node, now: float) -> str:
    age = aged(now - node.entered_at)
    return f"- {_plain(node.machine_id)} at {_plain(node.provider)} ({node.id}) for {age}"


def _changes(seen: Overview) -> Iterator[str]:
    if seen.changes:
        yield "## Changed in the last day"
    for change in seen.changes[:SHOWN]:
        who = f", by {_plain(change.who)}" if change.who else ""
        yield f"- {_time(change.at)}: {_plain(change.text)}{who}"


def _figures(seen: Overview) -> Iterator[str]:
    yield "## Nodes"
    for pool in seen.pools.items:
        count = pool.counts
        paused = ", paused" if pool.paused else ""
        yield (
            f"- {_plain(pool.template.name)} revision {pool.template.revision}:"
            f" {count.get(NodeState.IDLE, 0)} idle (min {pool.template.spec.min_idle}),"
            f" {count.get(NodeState.CREATED, 0)} booting, {count.get(NodeState.CLAIMED, 0)} claimed,"
            f" {count.get(NodeState.RUNNING, 0)} running, {pool.used} of {pool.template.spec.max_nodes} used"
            f"{paused}"
        )
    yield f"- in all {seen.pools.used} of {seen.pools.max_nodes}{', paused' if seen.pools.paused else ''}"
    yield "- health: " + ", ".join(f"{count} {health}" for health, count in seen.health.items())
    yield f"- last hour: {_warmth(seen.warm_hour)}; last day: {_warmth(seen.warm_day)}"


def _warmth(found: Warmth) -> str:
    if found.rate is None or found.ready is None:
        return "no requests"
    ready = f"ready in {found.ready.p50:.1f} s (p50), {found.ready.p95:.1f} s (p95)"
    return f"{found.warm} of {found.nodes} nodes warm ({found.rate:.0%}), {ready}"


def _machinery(seen: Overview) -> Iterator[str]:
    yield f"## Machinery, as {seen.replica} sees it"
    yield f"- store: {seen.store.calls} calls, {seen.store.errors} errors, p95 {_upto(seen.store.p95)}"
    for each in seen.dependencies:
        calls = each.calls
        last = f"; last error: {_plain(calls.last_error)}" if calls.last_error else ""
        yield (
            f"- {_plain(each.name)}: {calls.calls} calls, {calls.errors} errors, {calls.throttled} throttled"
            f"{last}"
        )
    for duty in seen.duties:
        if duty.late or duty.problem:
            last = "never" if duty.ticked_at is None else f"{aged(seen.at - duty.ticked_at)} ago"
            yield f"- duty {duty.name}: last tick {last}{'; ' + _plain(duty.problem) if duty.problem else ''}"


def _upto(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"≤ {seconds * 1000:g} ms"


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(_plain(each) for each in ids)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _plain(text: str) -> str:
    line = "".join(sign if sign.isprintable() else " " for sign in text)[:_LONGEST]
    return _MARKUP.sub(r"\\\1", line)
