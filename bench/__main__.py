"""`python -m bench [--tiny] [all | name …]`: measure, print a table, and write build/bench.json.

Without a name it measures what has a target (TARGETS), in less than ten minutes, and draws the figures into
docs/images/bench.svg. `--tiny` only shows that the benchmarks work: it takes seconds, and writes nothing.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import Figure
from bench.chart import drawn
from bench.tiny import TINY, shrink

MODULES = tuple(TINY)
TARGETS = ("handover", "provision_load", "replicas", "takeover", "connected_nodes", "claims", "growth")
OUTPUT = Path("build/bench.json")
PICTURE = Path("docs/images/bench.svg")


def main(given: Sequence[str]) -> int:
    tiny, names = "--tiny" in given, [name for name in given if name != "--tiny"]
    chosen = MODULES if names == ["all"] else tuple(names) or TARGETS
    unknown = [name for name in chosen if name not in MODULES]
    if unknown:
        print(f"error: no benchmark {unknown[0]!r}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    console = Console()
    figures: list[Figure] = []
    broken: list[str] = []
    for name in chosen:
        if tiny:
            shrink(name)
        before, began = os.getloadavg()[0], time.monotonic()
        try:
            with console.status(f"measuring {name}"):
                found = asyncio.run(importlib.import_module(f"bench.{name}").measure())
        except Exception:
            console.print_exception()
            broken.append(name)
            continue
        took, load = time.monotonic() - began, (before, os.getloadavg()[0])
        console.print(f"{name}: {took:.0f} s; load {load[0]:.1f} before, {load[1]:.1f} after")
        figures.extend(replace(figure, load=load) for figure in found)
    console.print(_table(figures))
    if broken:
        print(f"error: {', '.join(broken)} broke; what each said is above", file=sys.stderr)
    if tiny or broken:
        return 1 if broken else 0
    OUTPUT.parent.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures]
    OUTPUT.write_text(json.dumps(rows, indent=2) + "\n")
    console.print(f"written to {OUTPUT}")
    if chosen == TARGETS:
        PICTURE.write_text(drawn(figures))
        console.print(f"drawn in {PICTURE}")
    return 0


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "value", "floor", "ratio", "target", "load", "note")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:,.1f} {figure.unit}",
            "" if figure.floor is None else f"{figure.floor:,.1f}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            _wanted(figure),
            "" if figure.load is None else f"{max(figure.load):.1f}",
            figure.note,
        )
    return table


def _wanted(figure: Figure) -> str:
    sign = "≤" if figure.lower_is_better else "≥"
    wanted = [] if figure.target is None else [f"{sign} {figure.target:g} x"]
    if figure.limit is not None:
        wanted.append(f"{sign} {figure.limit:g} {figure.unit}")
    mark = {True: "met", False: "missed", None: ""}[figure.met]
    return f"{', '.join(wanted)} {mark}".strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
