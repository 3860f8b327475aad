"""`make mutants`: try every mutant of the domain, or those of the modules that are named."""

import os
import sys
import time
import traceback
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.mutants.trials import Broken, Mutant, Outcome, Seen, Subject, mutants, quickly, slowly

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = Subject(package="muster.domain", sources=ROOT / "src/muster/domain", tests=ROOT / "tests/domain")


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="module", help="as in src/muster/domain (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    given = parser.parse_args(arguments)
    os.chdir(ROOT)
    names = {path.stem for path in DOMAIN.sources.glob("*.py")}
    if unknown := sorted(set(given.modules) - names):
        parser.error(f"no such module in {DOMAIN.sources.relative_to(ROOT)}: {', '.join(unknown)}")
    started = time.monotonic()
    todo = mutants(DOMAIN, given.modules)
    try:
        outcomes = run(DOMAIN, todo, jobs=given.jobs)
    except Broken as broken:
        print(f"error: {broken}", file=sys.stderr)
        return 1
    print(table(todo, outcomes))
    print(f"{len(todo)} mutants in {time.monotonic() - started:.0f} s")
    return 0


def run(subject: Subject, todo: Sequence[Mutant], *, jobs: int) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    seen = Seen()
    for line in _apart(lambda write: _quickly(subject, todo, jobs, write)):
        kind, _, rest = line.partition(" ")
        match kind:
            case "broken":
                raise Broken(rest)
            case "seen":
                seen = Seen.from_text(rest)
            case _:
                outcomes[int(kind)] = Outcome(rest)
    if not seen.ran:
        raise Broken("no test ran")
    left = [number for number in range(len(todo)) if outcomes.get(number) in (None, Outcome.SURVIVED)]
    print(f"{len(todo) - len(left)} of {len(todo)} mutants are killed; the others are tried anew", flush=True)

    def hear(at: int, outcome: Outcome) -> None:
        outcomes[left[at]] = outcome
        if outcome is Outcome.SURVIVED:
            print(survivor(todo[left[at]]), flush=True)

    slowly(subject, [todo[number] for number in left], seen, jobs=jobs, tell=hear)
    return [outcomes[number] for number in range(len(todo))]


def _quickly(subject: Subject, todo: Sequence[Mutant], jobs: int, write: Callable[[str], None]) -> None:
    try:
        seen = quickly(subject, todo, jobs=jobs, tell=lambda at, outcome: write(f"{at} {outcome}"))
        write(f"seen {seen.as_text()}")
    except Exception as error:  # whatever it is, nothing was tried
        write(f"broken {type(error).__name__}: {' '.join(str(error).split())}")
        raise


def _apart(work: Callable[[Callable[[str], None]], None]) -> Iterator[str]:
    """Yield the lines that work writes in a process of its own, so that this one stays as it is."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            work(lambda line: _write(writing, line))
        except BaseException:  # nothing of this process's parent may run here
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n")
    os.waitpid(pid, 0)


def _write(file: int, line: str) -> None:
    rest = f"{line}\n".encode()
    while rest:
        rest = rest[os.write(file, rest) :]


def table(tried: Sequence[Mutant], outcomes: Sequence[Outcome]) -> str:
    """Return the counts per module. A mutant that never ends counts as killed: the tests can't pass."""
    modules = dict.fromkeys(mutant.module for mutant in tried)
    counts = {name: Counter[Outcome]() for name in modules}
    for mutant, outcome in zip(tried, outcomes, strict=True):
        counts[mutant.module][outcome] += 1
    rows = [_row(name, count) for name, count in counts.items()]
    head = f"{'module':16}{'mutants':>9}{''.join(f'{outcome:>10}' for outcome in Outcome)}"
    return "\n".join([head, *rows, _row("total", sum(counts.values(), Counter()))])


def _row(name: str, count: Counter[Outcome]) -> str:
    total = count.total()
    share = 100 * (total - count[Outcome.SURVIVED]) / total if total else 100.0
    figures = "".join(f"{count[outcome]:10}" for outcome in Outcome)
    return f"{name:16}{total:9}{figures}{share:9.1f} %"


def survivor(mutant: Mutant) -> str:
    place = f"{mutant.path.name}:{mutant.edit.line} {mutant.edit.function or 'outside of functions'}"
    return "\n".join([place, *(f"  {line}" for line in mutant.edit.shown())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
