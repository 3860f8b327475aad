"""The tool that tests the tests: what it breaks, and that it tells a guarded rule from an unguarded one."""

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants import trials
from tools.mutants.__main__ import DOMAIN, table
from tools.mutants.edits import edits, optional_in
from tools.mutants.trials import Outcome, mutants

ROOT = Path(__file__).parents[2]


def made_of(source: str) -> list[str]:
    """What stands in the place of the last line of a function's body."""
    tree = ast.parse(source)
    return [
        line.removeprefix("+ ") for edit in edits(tree, optional_in([tree])) for line in edit.shown()[-1:]
    ]


def inside(line: str) -> list[str]:
    return made_of(f"def f(a, b, c):\n    {line}\n")


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a >= b", ["x = a > b"]),
        ("x = a is b", ["x = a is not b"]),
        ("x = a and b", ["x = a or b", "x = b", "x = a"]),
        ("x = a or b or c", ["x = a and b and c", "x = b or c", "x = a or c", "x = a or b"]),
        ("x = not a", ["x = a"]),
        ("x = a - b", ["x = a + b"]),
        ("x = max(a)", ["x = min(a)"]),
        ("x = b if a else c", ["x = b", "x = c", "x = b if not a else c"]),
        ("x = 7", ["x = 8"]),
        ("x = True", ["x = False"]),
        ("x = 'word'", ["x = 'wordX'"]),
        ("x = f'{a} words'", []),
        ("raise ValueError('words')", ["pass"]),
        ("check(a)", ["pass"]),
        ("return a", ["return None"]),
        ("x = (a, b)", ["x = (b,)", "x = (a,)"]),
        ("x = {a: b}", ["x = {}"]),
        ("x = replace(a, b=b, c=c)", ["x = replace(a, c=c)", "x = replace(a, b=b)"]),
        ("x = [y for y in a if y]", ["x = [y for y in a if not y]"]),
    ],
)
def test_each_rule_is_broken_in_the_ways_it_could_have_been_written(line: str, others: list[str]) -> None:
    assert inside(line) == others


def test_an_argument_is_left_out_only_where_a_call_can_do_without_it() -> None:
    source = "def f(*, a, b=None): ...\ndef g(a, b):\n    x = f(a=a, b=b)\n"
    assert made_of(source) == ["x = f(a=a)"]


def test_outside_of_functions_numbers_and_words_are_settings_and_tables_are_rules() -> None:
    assert made_of("LIMIT = 20\nNAME = 'web'\nDAYS = 30 * 86400.0\nSteps = tuple[str, int]\n") == []
    assert made_of("ENDED = (A, B)\n") == ["ENDED = (B,)", "ENDED = (A,)"]
    assert made_of("@dataclass(frozen=True)\nclass C:\n    x: int | None = 3\n    drain: bool = False\n") == [
        "drain: bool = True"
    ]


def test_a_default_is_outside_of_its_function_and_a_nested_function_inside() -> None:
    tree = ast.parse(
        "class C:\n    def f(self, a=True):\n        def g():\n            return a\n        check()\n"
    )
    assert [edit.function for edit in edits(tree)] == ["", "C.f", "C.f"]


def test_an_edit_that_was_shown_is_not_made() -> None:
    tree = ast.parse("def f(a):\n    return a < 1\n")
    for edit in edits(tree):
        assert edit.shown()
    assert ast.unparse(tree) == "def f(a):\n    return a < 1"


@pytest.mark.parametrize(
    ("trial", "outcome"),
    [
        ("return True", Outcome.KILLED),
        ("return False", Outcome.SURVIVED),
        ("raise MemoryError", Outcome.KILLED),
        ("os.kill(os.getpid(), signal.SIGKILL)", Outcome.KILLED),
        ("while True: pass", Outcome.TIMEOUT),
    ],
    ids=["noticed", "unnoticed", "raised", "crashed", "endless"],
)
def test_a_mutant_survives_only_if_its_tests_come_to_their_end_and_pass(trial: str, outcome: Outcome) -> None:
    script = f"""
import os, signal
from tools.mutants.trials import fork, outcome_of
def trial():
    {trial}
print(outcome_of(os.waitpid(fork(trial, 0.2), 0)[1]))
"""
    # Apart from the process of the tests: that one has threads, and a fork of it would be a gamble.
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == outcome


SAMPLE = """
LEAST = 3
ENDED = ("done", "failed")

def enough(count):
    return count >= LEAST

def unguarded(count):
    return count >= LEAST
"""
TESTS = """
from sample.rules import ENDED, LEAST, enough, unguarded

def test_enough():
    assert enough(LEAST)
    assert not enough(LEAST - 1)

def test_unguarded():
    assert unguarded(LEAST + 1)

def test_ended():
    assert "done" in ENDED
"""
RUN = """
import sys
from pathlib import Path
from tools.mutants.__main__ import run
from tools.mutants.trials import Subject, mutants
here = Path.cwd()
sys.path.insert(0, str(here))
subject = Subject(package="sample", sources=here / "sample", tests=here / "tests")
for mutant, outcome in zip(todo := mutants(subject, []), run(subject, todo, jobs=2)):
    print(mutant.edit.line, *mutant.edit.shown()[-1:], outcome, sep="|")
"""


def sample(folder: Path, tests: str = TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "sample").mkdir()
    (folder / "sample/__init__.py").touch()
    (folder / "sample/rules.py").write_text(SAMPLE)
    (folder / "tests").mkdir()
    (folder / "tests/test_rules.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "sample/rules.py").read_text() == SAMPLE, "the tree is never written"
    return done


def test_a_guarded_rule_is_told_from_an_unguarded_one(tmp_path: Path) -> None:
    done = sample(tmp_path)
    outcomes = [line for line in done.stdout.splitlines() if line.count("|") == 2]
    assert outcomes == [
        "3|+ ENDED = ('failed',)|killed",
        "3|+ ENDED = ('done',)|survived",
        "6|+ return None|killed",
        "6|+ return count > LEAST|killed",
        "9|+ return None|killed",
        "9|+ return count > LEAST|survived",
    ], done.stderr


def test_functions_that_are_kept_out_of_collections_are_tried_too() -> None:
    """As tests/conftest.py keeps them."""
    gc.freeze()
    file = Path(trials.__file__)
    assert (str(file), "live_functions") in trials.live_functions(file.parent)
    gc.freeze()


def test_tests_that_fail_by_themselves_can_say_nothing(tmp_path: Path) -> None:
    done = sample(tmp_path, TESTS + "\ndef test_broken():\n    assert unguarded(LEAST - 1)\n")
    assert done.returncode != 0
    assert "test_broken fails without a mutant" in done.stderr
    assert "killed" not in done.stdout


def test_the_table_counts_per_module_and_in_total() -> None:
    one = mutants(DOMAIN, ["matching"])[0]
    text = table([one] * 4, [Outcome.KILLED, Outcome.KILLED, Outcome.TIMEOUT, Outcome.SURVIVED])
    head, row, total = (line.split() for line in text.splitlines())
    assert head == ["module", "mutants", "killed", "timeout", "survived"]
    assert row == ["matching", "4", "2", "1", "1", "75.0", "%"]
    assert total[1:] == row[1:]
