"""Show how far a long command is: a bar in a terminal, plain lines elsewhere. Always on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 10
"""Without a terminal: at most so many lines in all."""

Shown = Callable[[int, int], None]
"""How many are done, and how many of these failed."""


@contextmanager
def progress(total: int, *, terminal: bool) -> Iterator[Shown]:
    if not terminal:
        yield _plain(total)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("seeds", total=total)

        def show(done: int, failed: int) -> None:
            words = f"seeds, [red]{failed} failed[/red]" if failed else "seeds"
            bar.update(task, completed=done, description=words)

        yield show


def _plain(total: int) -> Shown:
    step = max(1, total // LINES)

    def show(done: int, failed: int) -> None:
        if done % step == 0 or done == total:
            print(f"{done} of {total} seeds, {failed} failed", file=sys.stderr, flush=True)

    return show
