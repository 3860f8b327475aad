"""What is told of a run: a table of counts per module, and each survivor with its diff."""

from collections import Counter
from collections.abc import Sequence

from tools.mutants.trials import Mutant, Outcome


def table(tried: Sequence[Mutant], outcomes: Sequence[Outcome]) -> str:
    """A mutant that never ends counts as killed: the tests can't pass."""
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
