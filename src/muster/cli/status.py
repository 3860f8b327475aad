"""`muster status`: show findings first, then what waits, failed and changed, and the pools."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.cli.durations import format_taken
from muster.cli.progress_views import LOOKS
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.overview import FailureGroup, Finding, Overview, Warm

SHOWN = 8
"""Of each kind; the rest is in `--output json` and `--report`."""


def status(
    *,
    report: Annotated[
        bool, typer.Option("--report", help="As Markdown, to be pasted into an incident.")
    ] = False,
) -> None:
    """Show findings with next steps first; then what waits, what failed, and changes by people."""
    with open_client() as client:
        if report and not output.wants_json():
            output.say(client.send(calls.incident_report()).rstrip("\n"))
            return
        seen = client.send(calls.overview())
    if output.wants_json():
        output.print_json(seen)
        return
    for finding in (seen.verdict, *seen.findings[1:]):
        _verdict(finding)
    for title, lines in (
        ("Acknowledged", list(_acknowledged(seen))),
        ("Waiting", list(_waiting(seen))),
        ("Runs with nodes", list(_runs(seen))),
        ("Kept for a look", list(_held(seen))),
        ("Failed in the last day", list(_failed(seen))),
        ("Lingering", list(_lingering(seen))),
        ("Changed in the last day", list(_changed(seen))),
        ("Nodes", list(_nodes(seen))),
    ):
        if lines:
            output.say(f"\n{title}")
            for line in lines:
                output.print_indented(line)
    if seen.findings:
        output.say("\nHide these findings until they happen again: `muster acknowledge --all`")


def _verdict(finding: "Finding") -> None:
    sign, style = LOOKS[finding.tone]
    advice = f" {finding.advice}" if finding.advice else ""
    if output.is_terminal():
        from rich.text import Text

        named = f"  {finding.id}" if advice else ""
        output.console().print(Text.assemble((f"{sign} {finding.text}", style), advice, (named, "dim")))
    else:
        named = f" [{finding.id}]" if advice else ""
        output.say(f"{sign} {finding.text}{advice}{named}")


def _acknowledged(seen: "Overview") -> Iterator[str]:
    for given in seen.acknowledged[:SHOWN]:
        yield f"{given.finding.text} ({given.finding.id}, by {given.by}, {output.age(given.at)} ago)"


def _waiting(seen: "Overview") -> Iterator[str]:
    for group in seen.waiting.reasons:
        age = output.age(group.oldest_since)
        yield f"{group.count} {group.text}, the oldest for {age}: {group.operation_ids[0]}"


def _runs(seen: "Overview") -> Iterator[str]:
    for run in seen.runs.items[:SHOWN]:
        unwell = f", {run.unwell} unwell" if run.unwell else ""
        ends = "" if run.deadline_at is None else f", {output.time_left(run.deadline_at)} left"
        yield f"{run.run or 'apps'}: {counted(run.count, 'node')} of {run.template}{unwell}{ends}"
    more = seen.runs.count - min(SHOWN, len(seen.runs.items))
    if more or seen.runs.more:
        yield f"and {more}{'+' if seen.runs.more else ''} more"


def _held(seen: "Overview") -> Iterator[str]:
    for node in seen.held.items[:SHOWN]:
        of = node.template if node.run is None else f"{node.template}, run {node.run}"
        by = f" by {node.by}" if node.by else ""
        cap = f"1 of {node.used} under its cap of {node.max_nodes}"
        yield (
            f"{node.node_id} ({node.state}, {of}): kept{by}, {output.time_left(node.deadline_at)} left,"
            f" {cap}; end it: `{node.end}`"
        )
    more = seen.held.count - min(SHOWN, len(seen.held.items))
    if more:
        yield f"and {more} more"


def _failed(seen: "Overview") -> Iterator[str]:
    recent = {
        (group.cause, group.template, group.revision): group.count for group in seen.failures.hour.groups
    }
    for group in seen.failures.day.groups[:SHOWN]:
        lately = recent.get((group.cause, group.template, group.revision), 0)
        yield _group(group, lately)


def _group(group: "FailureGroup", lately: int) -> str:
    of = "" if group.template is None else f" of {group.template}"
    revision = "" if group.revision is None else f" revision {group.revision}"
    example = group.example_node_id or group.example_operation_id or ""
    return (
        f"{group.count} × {group.cause}{of}{revision} ({lately} in the last hour),"
        f" last {output.age(group.last_at)} ago, e.g. {example}"
    )


def _lingering(seen: "Overview") -> Iterator[str]:
    for what, found in (
        ("resists its termination", seen.leftovers.stuck),
        ("orphan", seen.leftovers.orphans),
    ):
        for item in found.items[:SHOWN]:
            age = output.age(item.since)
            yield f"{item.machine_id} at {item.provider}: {what}, for {age} ({item.node_id})"


def _changed(seen: "Overview") -> Iterator[str]:
    for change in seen.changes[:SHOWN]:
        who = f", by {change.who}" if change.who else ""
        yield f"{output.age(change.at):>4} ago  {change.text}{who}"


def _nodes(seen: "Overview") -> Iterator[str]:
    for pool in seen.pools.items:
        paused = " · paused" if pool.paused else ""
        yield (
            f"{pool.template}: {pool.idle} idle (min {pool.min_idle}), {pool.booting} booting,"
            f" {pool.claimed} claimed, {pool.running} running, {pool.used} of {pool.max_nodes}{paused}"
        )
    whole = f"{seen.pools.used} of {counted(seen.pools.max_nodes, 'node')} in all"
    yield ", ".join([whole, *(f"{count} {health}" for health, count in seen.health.items() if count)])
    yield f"last hour: {_warmth(seen.warmth.hour)}"


def _warmth(found: "Warm") -> str:
    if found.rate is None or found.ready is None:
        return "no requests"
    ready = f"ready in {format_taken(found.ready.p50)} (p50), {format_taken(found.ready.p95)} (p95)"
    return f"{found.warm} of {counted(found.nodes, 'node')} warm ({found.rate:.0%}), {ready}"
