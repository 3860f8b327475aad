"""Results in words and as JSON. A failure says what broke, what came before it, and how to see it again."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from muster_simulation.campaign import Outcome
from muster_simulation.summary import Result

DETAILED = 3
"""Failures shown with their last events; of the others only the replay command."""
LISTED = 20


def one_as_text(result: Result) -> str:
    lines = [
        f"seed {result.seed}, {result.hours:g} h of {result.faults} faults, {result.replicas} replicas",
        "",
        *_table("operations", result.operations),
        *_table("nodes", result.nodes),
        *_table("faults injected", result.injected),
        f"virtual time    {_duration(result.virtual_seconds)}",
        f"wall time       {_wall(result.wall_seconds, result.virtual_seconds)}",
        f"events          {result.events}",
        f"trace           {result.trace}",
    ]
    if not result.ok:
        lines += ["", *_failure(result)]
    return "\n".join(lines)


def one_as_json(result: Result) -> str:
    return json.dumps(_plain(result), indent=2)


def many_as_text(outcome: Outcome, *, wall: float) -> str:
    lines = [
        *_table("operations", outcome.operations),
        *_table("faults injected", outcome.injected),
        f"seeds           {outcome.seeds}, {len(outcome.failures)} failed",
        f"virtual time    {_duration(outcome.virtual_seconds)}",
        f"wall time       {_wall(wall, outcome.virtual_seconds)}",
        f"events          {outcome.events}",
    ]
    for result in outcome.failures[:DETAILED]:
        lines += ["", *_failure(result)]
    rest = outcome.failures[DETAILED:]
    if rest:
        lines += ["", "more failing seeds:"]
        lines += [f"  {result.replay}    # {result.broken}" for result in rest[:LISTED]]
        if len(rest) > LISTED:
            lines.append(f"  and {len(rest) - LISTED} more")
    return "\n".join(lines)


def many_as_json(outcome: Outcome, *, wall: float) -> str:
    return json.dumps(
        {
            "seeds": outcome.seeds,
            "failed": len(outcome.failures),
            "failures": [_plain(result) for result in outcome.failures],
            "operations": outcome.operations,
            "injected": outcome.injected,
            "events": outcome.events,
            "virtual_seconds": outcome.virtual_seconds,
            "wall_seconds": wall,
        },
        indent=2,
    )


def _plain(result: Result) -> dict[str, object]:
    return {
        **asdict(result),
        "ok": result.ok,
        "hours_per_second": result.hours_per_second,
        "replay": result.replay,
    }


def _failure(result: Result) -> Iterable[str]:
    return (
        f"BROKEN, seed {result.seed}: {result.broken}",
        f"  {result.explanation}",
        f"the last {len(result.last)} events:",
        *(f"  {line}" for line in result.last),
        "run it again with:",
        f"  {result.replay}",
    )


def _table(title: str, counts: Mapping[str, int]) -> list[str]:
    if not counts:
        return []
    width = max(len(key) for key in counts)
    return [title, *(f"  {key:<{width}}  {times:>7}" for key, times in counts.items()), ""]


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    days, rest = divmod(minutes, 24 * 60)
    return f"{days} d {rest // 60} h {rest % 60} min" if days else f"{rest // 60} h {rest % 60} min"


def _wall(wall: float, virtual: float) -> str:
    rate = virtual / 3600.0 / wall if wall else 0.0
    return f"{wall:.1f} s, {rate:.1f} simulated hours per second"
