"""`muster simulate`: run the control plane in a simulated world, for one seed or for many.

Owns the options and their checks. Exit codes: 0 every promise was kept, 1 one was broken, 2 bad usage. Shows
on stderr how far it is: a bar in a terminal, plain lines elsewhere.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from muster.cli.output import wants_json

MANY = 0.25
"""Hours per seed when there are many."""
ONE = 24.0
LONGEST_DAYS = 365.0
REPLICAS_MOST = 20
JOBS_MOST = 1024
LINES = 10
"""Without a terminal: at most so many lines in all."""

Shown = Callable[[int, int], None]
"""How many are done, and how many of these failed."""


def simulate(
    *,
    seed: Annotated[int | None, typer.Option(help="Run this one seed.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Run this many seeds, on all cores.")] = None,
    first: Annotated[int, typer.Option(help="With --seeds: the first of them.")] = 0,
    days: Annotated[float | None, typer.Option(help="Virtual days of trouble per seed.")] = None,
    hours: Annotated[
        float | None, typer.Option(help=f"The same in hours. (default: {ONE:g}; with --seeds {MANY:g})")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(help="Replicas over the one store. (default: 2; with --seeds 1 to 3 in turn)"),
    ] = None,
    faults: Annotated[str, typer.Option(help="How much goes wrong: none, light or heavy.")] = "heavy",
    jobs: Annotated[
        int | None, typer.Option(help="With --seeds: worker processes. (default: one per core)")
    ] = None,
) -> None:
    """Run the control plane in a simulated world of crashes, lost replies and lying clouds, and check
    its promises after every event. The same seed gives the same trace."""
    from muster_simulation.plan import Level

    if (seed is None) == (seeds is None):
        _refuse("give either --seed or --seeds: one seed to look at, or how many to try")
    if faults not in tuple(Level):
        _refuse(f"cannot use --faults {faults}: choose one of {', '.join(Level)}")
    if days is not None and hours is not None:
        _refuse("give --days or --hours, not both")
    if days is not None:
        hours = days * 24.0
    if hours is not None and not 0.0 < hours <= LONGEST_DAYS * 24.0:
        _refuse(f"cannot run for {hours:g} hours: choose more than 0 and at most {LONGEST_DAYS:g} days")
    _whole("replicas", replicas, least=1, most=REPLICAS_MOST)
    _whole("seed", seed, least=0, most=2**63)
    _whole("first", first, least=0, most=2**63)
    _whole("seeds", seeds, least=1, most=10_000_000)
    _whole("jobs", jobs, least=1, most=JOBS_MOST)
    if seed is not None:
        if jobs is not None:
            _refuse("cannot use --jobs with --seed: one seed runs in one process")
        _one(seed, faults, hours or ONE, replicas or 2)
    else:
        chosen = range(first, first + (seeds or 0))
        _many(chosen, faults=faults, hours=hours or MANY, replicas=replicas, jobs=jobs)


def _one(seed: int, faults: str, hours: float, replicas: int) -> None:
    import time

    from muster_simulation.reporting import one_as_json, one_as_text
    from muster_simulation.simulate import simulate as run

    result = run(seed=seed, faults=faults, hours=hours, replicas=replicas, wall=time.perf_counter)
    typer.echo(one_as_json(result) if wants_json() else one_as_text(result))
    if not result.ok:
        raise typer.Exit(1)


def _many(seeds: range, *, faults: str, hours: float, replicas: int | None, jobs: int | None) -> None:
    import os
    import sys
    import time

    from muster_simulation.campaign import Campaign
    from muster_simulation.reporting import many_as_json, many_as_text

    campaign = Campaign(
        seeds=seeds, faults=faults, hours=hours, replicas=replicas, jobs=jobs or os.cpu_count() or 1
    )
    started = time.perf_counter()
    with progress(len(seeds), terminal=sys.stderr.isatty()) as shown:
        outcome = campaign.run(shown)
    wall = time.perf_counter() - started
    render = many_as_json if wants_json() else many_as_text
    typer.echo(render(outcome, wall=wall))
    if outcome.failures:
        raise typer.Exit(1)


def _whole(name: str, value: int | None, *, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        _refuse(f"cannot use --{name} {value}: choose a whole number from {least} to {most}")


def _refuse(message: str) -> NoReturn:
    raise typer.BadParameter(message)


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
