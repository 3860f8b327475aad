"""Many seeds over many processes: what each came to, in the order of the seeds.

Owns the spreading of work. A worker runs one seed at a time and shares nothing with the others.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice

from muster_simulation.simulate import simulate
from muster_simulation.summary import Result

REPLICAS_IN_TURN = 3
AHEAD = 4
"""Seeds handed out per worker before the first of them is back: enough to keep all busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seeds: int
    failures: tuple[Result, ...]
    """By seed."""
    operations: dict[str, int]
    injected: dict[str, int]
    events: int
    virtual_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    seeds: Sequence[int]
    faults: str
    hours: float
    replicas: int | None
    """None: one to three, in turn."""
    jobs: int

    def run(self, shown: Callable[[int, int], None]) -> Outcome:
        """`shown` is told how many are done and how many of these failed."""
        failures: list[Result] = []
        operations: dict[str, int] = {}
        injected: dict[str, int] = {}
        done, events, virtual = 0, 0, 0.0
        for result in self._results():
            done += 1
            events += result.events
            virtual += result.virtual_seconds
            _add(operations, result.operations)
            _add(injected, result.injected)
            if not result.ok:
                failures.append(result)
            shown(done, len(failures))
        return Outcome(
            seeds=done,
            failures=tuple(sorted(failures, key=lambda result: result.seed)),
            operations=dict(sorted(operations.items())),
            injected=dict(sorted(injected.items())),
            events=events,
            virtual_seconds=virtual,
        )

    def _results(self) -> Iterator[Result]:
        """As they come."""
        if self.jobs == 1:
            yield from (self.run_one(seed) for seed in self.seeds)
            return
        waiting = iter(self.seeds)
        with ProcessPoolExecutor(self.jobs) as pool:
            running: list[Future[Result]] = [
                pool.submit(self.run_one, seed) for seed in islice(waiting, self.jobs * AHEAD)
            ]
            while running:
                finished = next(as_completed(running))
                running.remove(finished)
                running += [pool.submit(self.run_one, seed) for seed in islice(waiting, 1)]
                yield finished.result()

    def run_one(self, seed: int) -> Result:
        replicas = self.replicas or 1 + seed % REPLICAS_IN_TURN
        return simulate(
            seed=seed, faults=self.faults, hours=self.hours, replicas=replicas, wall=time.perf_counter
        )


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for key, times in more.items():
        total[key] = total.get(key, 0) + times
