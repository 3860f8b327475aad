"""`muster simulate`: what it prints, and how it refuses."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from muster.cli.app import app
from muster_simulation.campaign import Campaign
from muster_simulation.reporting import many_as_text, one_as_text
from muster_simulation.simulate import simulate
from muster_simulation.summary import Result

runner = CliRunner()


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(seed=3, faults="light", hours=0.1, replicas=1)


def test_one_seed_prints_a_summary_and_the_trace(result: Result) -> None:
    done = runner.invoke(
        app, ["simulate", "--seed", "3", "--hours", "0.1", "--replicas", "1", "--faults", "light"]
    )
    assert done.exit_code == 0, done.output
    assert result.trace in done.output
    assert "simulated hours per second" in done.output


def test_json_carries_the_same(result: Result) -> None:
    arguments = ["--seed", "3", "--hours", "0.1", "--replicas", "1", "--faults", "light", "--output", "json"]
    done = runner.invoke(app, ["simulate", *arguments])
    assert json.loads(done.stdout)["trace"] == result.trace


def test_many_seeds_are_counted_together() -> None:
    done = runner.invoke(
        app, ["simulate", "--seeds", "2", "--hours", "0.05", "--jobs", "1", "--output", "json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout[done.stdout.index("{") :])["seeds"] == 2


def test_workers_find_the_same_as_one_process() -> None:
    spread, alone = (
        Campaign(seeds=range(3), faults="heavy", hours=0.05, replicas=None, jobs=jobs).run(lambda *_: None)
        for jobs in (2, 1)
    )
    assert spread == alone


def test_a_broken_promise_is_shown_with_its_replay_command(result: Result) -> None:
    broken = replace(result, broken="caps_hold", explanation="17 of 16", last=("one", "two"))
    shown = one_as_text(broken)
    assert "caps_hold" in shown
    assert "17 of 16" in shown
    assert "muster simulate --seed 3 --hours 0.1 --replicas 1 --faults light" in shown


def test_only_the_first_few_failures_are_shown_in_full(result: Result) -> None:
    failures = tuple(replace(result, seed=seed, broken="caps_hold", last=("last",)) for seed in range(40))
    campaign = Campaign(seeds=(), faults="light", hours=0.1, replicas=1, jobs=1)
    shown = many_as_text(replace(campaign.run(lambda *_: None), failures=failures), wall=1.0)
    assert shown.count("BROKEN") == 3
    assert "--seed 22 " in shown
    assert "and 17 more" in shown


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--seed"),
        (["--seed", "1", "--seeds", "2"], "--seed"),
        (["--seed", "-1"], "-1"),
        (["--seeds", "0"], "--seeds"),
        (["--seed", "1", "--faults", "medium"], "medium"),
        (["--seed", "1", "--output", "xml"], "xml"),
        (["--seed", "1", "--days", "0"], "0"),
        (["--seed", "1", "--days", "1", "--hours", "1"], "both"),
        (["--seed", "1", "--hours", "nan"], "nan"),
        (["--seed", "1", "--replicas", "0"], "--replicas"),
        (["--seed", "1", "--jobs", "2"], "--jobs"),
        (["--seed", "x"], "int"),
    ],
)
def test_bad_usage_is_refused_with_a_reason(arguments: list[str], word: str) -> None:
    done = runner.invoke(app, ["simulate", *arguments])
    assert done.exit_code == 2
    assert word in done.output
