"""`python -m bench [name …]`: measure, print a table, and write build/bench.json."""

import asyncio
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import Figure

MODULES = (
    "claims",
    "dynamodb",
    "postgres",
    "replicas",
    "provisions",
    "fleet",
    "simulated",
    "controllers",
    "judging",
    "startup",
    "heartbeats",
    "handover",
    "flood",
    "crowd",
    "probing",
    "runners",
)
OUTPUT = Path("build/bench.json")


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        print(f"error: no benchmark {unknown[0]!r}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    console = Console()
    figures: list[Figure] = []
    for name in names or MODULES:
        module = importlib.import_module(f"bench.{name}")
        with console.status(f"measuring {name}"):
            figures.extend(asyncio.run(module.measure()))
    console.print(_table(figures))
    OUTPUT.parent.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures]
    OUTPUT.write_text(json.dumps(rows, indent=2) + "\n")
    console.print(f"written to {OUTPUT}")
    return 0


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "value", "floor", "ratio", "target", "note")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:,.1f} {figure.unit}",
            "" if figure.floor is None else f"{figure.floor:,.1f}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            _wanted(figure),
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
