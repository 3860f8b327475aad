"""Try a mutant: a forked process in which one edit holds, and the tests that could notice.

This module owns how an edit takes effect. Most edits are inside a function. For these, the tests are
collected once, and each fork gives one live function the code of the edit. What runs at import (tables,
defaults), and what survived, is tried the slow way. A fork that has imported nothing yet loads the module
with the edit and collects its tests anew. So no cache and no earlier row hides it. Tests that are far from a
mutant are left out, so the whole suite may notice a survivor. A mutant that is called killed made a test
fail.
"""

import ast
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

from tools.mutants.edits import Edit, edits, optional_in

QUIET = (
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler"),
    *("-o", "addopts=--import-mode=importlib"),  # the others are for the terminal
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is here before pytest
)
LEAST_SECONDS = 5.0
"""Of CPU time, for a mutant whose tests take less: a loaded machine must not decide."""
TIMES = 10
"""A mutant whose tests need this many times their time is stuck."""
MEMORY = 4 * 2**30
"""A mutant that grows without end meets an error here, and a test sees it."""
EXAMPLES = 50
LONGEST = 1.0
"""Seconds of a single test. Longer ones measure speed or draw many cases; a rule has quicker guards."""
OWN = 6.0
"""Seconds of the tests of a module's own files that are tried, the quickest first."""
ENOUGH = 2.0
"""Seconds of the other tests that enter it: far from a rule, many tests say the same."""


class Outcome(StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


class Broken(Exception):
    """The tests fail without any mutant, so that they can say nothing about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A package whose modules are tried, and the tests that guard it."""

    package: str
    sources: Path
    tests: Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mutant:
    module: str
    path: Path
    tree: ast.Module
    edit: Edit


Trial = Callable[[], bool]
"""Whether a test noticed."""
Tell = Callable[[int, Outcome], None]
"""What became of a mutant, by its place in the list."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What the tests did when nothing was edited, by the name of a test."""

    seconds: dict[str, float] = field(default_factory=dict)
    ran: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The functions that it entered, each as (file, qualified name)."""
    imported: set[tuple[str, str]] = field(default_factory=set)
    """The functions that ran while the package was imported."""
    long: set[str] = field(default_factory=set)
    """The tests that are left out."""

    def as_text(self) -> str:
        ran = {name: sorted(places) for name, places in self.ran.items()}
        return json.dumps([self.seconds, ran, sorted(self.long)])

    @classmethod
    def from_text(cls, text: str) -> "Seen":
        seconds, ran, long = json.loads(text)
        by_test = {name: {(file, at) for file, at in places} for name, places in ran.items()}
        return cls(seconds=seconds, ran=by_test, long=set(long))


def mutants(subject: Subject, modules: Sequence[str]) -> list[Mutant]:
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(subject.sources.glob("*.py"))
    }
    optional = optional_in(trees.values())
    return [
        Mutant(module=path.stem, path=path, tree=tree, edit=edit)
        for path, tree in trees.items()
        if not modules or path.stem in modules
        for edit in edits(tree, optional)
    ]


def steady() -> None:
    """Use the same examples in every run, remember none, and spend no time on making a failure small."""
    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=EXAMPLES,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=tuple(HealthCheck),  # some look at the clock on the wall
    )
    settings.load_profile("mutants")


# --- the quick way ----------------------------------------------------------------------------------------


class Quick:
    """A pytest plugin: takes the place of the test loop, and tries mutants instead."""

    def __init__(self, subject: Subject, todo: Sequence[Mutant], *, jobs: int, tell: Tell) -> None:
        self._subject = subject
        self._todo = todo
        self._jobs = jobs
        self._tell = tell
        self.seen = Seen()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise Broken("cannot collect the tests")
        for item in session.items:
            self._watch(item)
        items = {item.nodeid: item for item in session.items}
        functions = live_functions(self._subject.sources)

        def trial(mutant: Mutant) -> Callable[[], bool] | None:
            place = (str(mutant.path), mutant.edit.function)
            if not mutant.edit.function or place in self.seen.imported or place not in functions:
                return None
            names = [name for name, ran in self.seen.ran.items() if place in ran]
            guards = nearest(mutant, {name: self.seen.seconds[name] for name in names})
            return lambda: _quickly(mutant, functions[place], [items[name] for name in guards])

        in_forks(self._todo, trial, self._limit, jobs=self._jobs, tell=self._tell)
        return True

    def _limit(self, mutant: Mutant) -> float:
        return limit(self.seen, mutant)

    def _watch(self, item: pytest.Item) -> None:
        started = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        with traced(self._subject.sources) as ran:
            noticed = fails(item)
        if noticed:
            raise Broken(f"{item.nodeid} fails without a mutant")
        seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - started
        if seconds > LONGEST:
            self.seen.long.add(item.nodeid)
        else:
            self.seen.ran[item.nodeid] = ran
            self.seen.seconds[item.nodeid] = seconds


def nearest(mutant: Mutant, costs: Mapping[str, float]) -> list[str]:
    """Return the tests that could notice: the module's own, and the quickest others."""
    found: list[str] = []
    spent = {True: 0.0, False: 0.0}
    for name in sorted(costs, key=lambda name: (costs[name], name)):
        own = Path(file_of(name)).stem.startswith(f"test_{mutant.module}")
        if spent[own] < (OWN if own else ENOUGH):
            found.append(name)
            spent[own] += costs[name]
    return found


def limit(seen: Seen, mutant: Mutant) -> float:
    path = str(mutant.path)
    guards = [name for name, ran in seen.ran.items() if any(file == path for file, _ in ran)]
    return LEAST_SECONDS + TIMES * max((seen.seconds[name] for name in guards), default=0.0)


def fails(item: pytest.Item) -> bool:
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def _quickly(mutant: Mutant, functions: Sequence[types.FunctionType], guards: Sequence[pytest.Item]) -> bool:
    code = code_of(compiled(mutant), mutant.edit.function)
    for function in functions:
        function.__code__ = code
    return any(fails(item) for item in guards)


def compiled(mutant: Mutant) -> types.CodeType:
    """Compile the edit into this process. Only for a process of its own: the edit is not taken back."""
    mutant.edit.apply()
    return compile(mutant.tree, str(mutant.path), "exec")


def code_of(code: types.CodeType, name: str) -> types.CodeType:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if inner.co_qualname == name:
                return inner
            if name.startswith(f"{inner.co_qualname}."):
                return code_of(inner, name)
    raise LookupError(name)


def live_functions(sources: Path) -> Mapping[tuple[str, str], list[types.FunctionType]]:
    """Return every function object of the package: slots make some functions of a class twice."""
    found: dict[tuple[str, str], list[types.FunctionType]] = {}
    gc.unfreeze()  # what tests/conftest.py keeps out of collections is not listed either
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and Path(each.__code__.co_filename).parent == sources:
            found.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
    return found


@contextlib.contextmanager
def traced(sources: Path) -> Iterator[set[tuple[str, str]]]:
    ran: set[tuple[str, str]] = set()
    folder = f"{sources}{os.sep}"

    def entered(frame: types.FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(folder):
            ran.add((code.co_filename, code.co_qualname.partition(".<locals>")[0]))

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield ran
    finally:
        sys.settrace(before)


def quickly(subject: Subject, todo: Sequence[Mutant], *, jobs: int, tell: Tell) -> Seen:
    """Try what can be tried the quick way. Tells of what was killed, and returns what the tests did."""
    steady()
    with traced(subject.sources) as imported:
        for path in sorted(subject.sources.glob("*.py")):
            importlib.import_module(f"{subject.package}.{path.stem}".removesuffix(".__init__"))
    plugin = Quick(subject, todo, jobs=jobs, tell=tell)
    plugin.seen.imported = imported
    if pytest.main([*QUIET, str(subject.tests)], plugins=[plugin]) not in (
        0,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        raise Broken("the tests can't be collected, or fail without a mutant; see `make test`")
    return plugin.seen


# --- the slow way -----------------------------------------------------------------------------------------


class _Loader(importlib.abc.Loader):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compiled(self._mutant), module.__dict__)  # noqa: S102  # the module itself, with one edit


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, mutant: Mutant) -> None:
        self._name = name
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(self._mutant), origin=str(self._mutant.path))


def slowly(subject: Subject, todo: Sequence[Mutant], seen: Seen, *, jobs: int, tell: Tell) -> None:
    """Try mutants in processes that import everything anew. This one must not have imported the package."""
    steady()
    files = sorted({file for mutant in todo for file in guards_of(subject, mutant, seen)})
    _, status = os.waitpid(fork(lambda: _anew(subject, None, files, seen), 3600), 0)
    if outcome_of(status) is not Outcome.SURVIVED:
        raise Broken("the tests fail without a mutant when they are collected anew")

    def trial(mutant: Mutant) -> Callable[[], bool]:
        return lambda: _anew(subject, mutant, guards_of(subject, mutant, seen), seen)

    in_forks(todo, trial, lambda mutant: LEAST_SECONDS + limit(seen, mutant), jobs=jobs, tell=tell)


class Brief:
    """A pytest plugin: leaves out the tests that are known to take long."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._seen.long]


def file_of(test: str) -> str:
    return test.partition("::")[0]


def guards_of(subject: Subject, mutant: Mutant, seen: Seen) -> list[str]:
    """Return the files whose tests enter the module or name it."""
    path = str(mutant.path)
    cost: dict[str, float] = {}
    for name, ran in seen.ran.items():
        file = file_of(name)
        if any(entered == path for entered, _ in ran):
            cost[file] = cost.get(file, 0.0) + seen.seconds[name]
    for each in sorted(subject.tests.glob("test_*.py")):
        if f".{mutant.module} import" in each.read_text(encoding="utf-8"):
            cost.setdefault(str(each.relative_to(Path.cwd())), 0.0)
    return nearest(mutant, cost)


def _anew(subject: Subject, mutant: Mutant | None, files: Sequence[str], seen: Seen) -> bool:
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(f"{subject.package}.{mutant.module}", mutant))
    if not files:
        return False
    ended = pytest.main([*QUIET, "-x", *files], plugins=[Brief(seen)])
    # A module that can't be imported interrupts the collection.
    return ended in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)


# --- processes --------------------------------------------------------------------------------------------


def in_forks(
    todo: Sequence[Mutant],
    trial: Callable[[Mutant], Trial | None],
    seconds: Callable[[Mutant], float],
    *,
    jobs: int,
    tell: Tell,
) -> None:
    """Run each trial in a process of its own, at most `jobs` at a time. None: it can't be tried this way."""
    running: dict[int, int] = {}
    for number, mutant in enumerate(todo):
        found = trial(mutant)
        if found is None:
            continue
        if len(running) >= jobs:
            _reap(running, tell)
        running[fork(found, seconds(mutant))] = number
    while running:
        _reap(running, tell)


def fork(trial: Trial, seconds: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    noticed = True
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        noticed = trial()
    finally:
        # Not `return`: nothing of the parent's may run here. What it raised, a test would have met as well.
        os._exit(1 if noticed else 0)


def _reap(running: dict[int, int], tell: Tell) -> None:
    pid, status = os.wait()
    tell(running.pop(pid), outcome_of(status))


def outcome_of(status: int) -> Outcome:
    if os.WIFSIGNALED(status):
        return Outcome.TIMEOUT if os.WTERMSIG(status) == signal.SIGPROF else Outcome.KILLED
    return Outcome.KILLED if os.WEXITSTATUS(status) else Outcome.SURVIVED
