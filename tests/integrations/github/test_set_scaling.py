"""How many runners a scale set needs, from GitHub's counts and the runners that it has."""

import pytest

from muster.domain.ids import OperationId
from muster.integrations.github.set_scaling import (
    CLEANED_WITHIN,
    UNFINISHED_MOST,
    Bounds,
    Demand,
    Plan,
    Room,
    SetRunnerState,
    Stage,
    capacity,
    plan,
)

NOW = 10_000.0
IDLE = 360.0
AGE = 900.0


def bounds(
    *, most: int = 10, min_idle: int = 0, allowed: int = 180, reuses: bool = True, warm: int = 0
) -> Bounds:
    return Bounds(
        most=most,
        min_idle=min_idle,
        idle_timeout=IDLE,
        age_most=AGE,
        reuses=reuses,
        warm=warm,
        allowed=allowed,
    )


def runner(
    number: int,
    stage: Stage = Stage.SERVING,
    *,
    age: float = 1.0,
    busy: bool = False,
    spent: bool = False,
    ended: float | None = None,
) -> SetRunnerState:
    return SetRunnerState(
        operation_id=OperationId(f"op-{number}"),
        number=number,
        stage=stage,
        since=NOW - age,
        name=f"runner-{number}",
        busy=busy,
        spent=spent,
        ended_at=None if ended is None else NOW - ended,
    )


def planned(
    assigned: int,
    *runners: SetRunnerState,
    running: int = 0,
    waiting: float | None = None,
    most: int = 10,
    min_idle: int = 0,
    allowed: int = 180,
    reuses: bool = True,
    warm: int = 0,
) -> Plan:
    since = None if waiting is None else NOW - waiting
    demand = Demand(assigned=assigned, running=running, waiting_since=since)
    given = bounds(most=most, min_idle=min_idle, allowed=allowed, reuses=reuses, warm=warm)
    return plan(demand, runners, given, now=NOW)


@pytest.mark.parametrize(
    ("assigned", "most", "min_idle", "target"),
    [(0, 10, 0, 0), (3, 10, 0, 3), (3, 10, 2, 5), (30, 10, 2, 10), (0, 1, 1, 1), (5, 0, 0, 0)],
)
def test_the_target_is_what_is_assigned_and_the_idle_ones_on_top_up_to_the_most(
    assigned: int, most: int, min_idle: int, target: int
) -> None:
    found = planned(assigned, most=most, min_idle=min_idle)
    assert (found.target, found.missing, found.ask) == (target, target, target)


def test_runners_on_their_way_count_as_runners() -> None:
    found = planned(4, runner(1, Stage.QUEUED), runner(2, Stage.STARTING), runner(3, busy=True))
    assert found.ask == 1


def test_a_runner_whose_job_ended_counts_no_more() -> None:
    assert planned(1, runner(1, spent=True), reuses=False).ask == 1
    assert planned(0, runner(1, age=IDLE, spent=True)).retire == ()


@pytest.mark.parametrize(("ended", "ask"), [(0.0, 0), (CLEANED_WITHIN - 1, 0), (CLEANED_WITHIN, 1)])
def test_a_machine_that_is_being_cleaned_is_waited_for_a_moment(ended: float, ask: int) -> None:
    assert planned(1, runner(1, spent=True)).ask == 0
    found = planned(1, runner(1, ended=ended))
    assert (found.missing, found.ask) == (1, ask)
    assert planned(1, runner(1, ended=ended), reuses=False).ask == 1


def test_a_machine_that_is_being_cleaned_is_not_waited_for_while_others_are_idle() -> None:
    cleaned = [runner(number, ended=0.0) for number in (1, 2)]
    assert [planned(3, *cleaned, warm=warm).ask for warm in (0, 1, 2, 3, 9)] == [1, 1, 2, 3, 3]


def test_the_limit_on_registrations_bounds_what_is_asked_for_and_not_what_is_missing() -> None:
    found = planned(5000, most=5000, allowed=7)
    assert (found.missing, found.ask) == (5000, 7)


def test_no_more_provisions_are_under_way_than_a_look_can_read() -> None:
    starting = [runner(number, Stage.STARTING) for number in range(UNFINISHED_MOST - 3)]
    assert planned(5000, *starting, most=5000, allowed=5000).ask == 3
    serving = [runner(number) for number in range(UNFINISHED_MOST)]
    assert planned(5000, *serving, most=5000, allowed=5000).ask == UNFINISHED_MOST


def test_surplus_provisions_that_hold_nothing_are_cancelled_the_newest_first() -> None:
    found = planned(1, *(runner(number, Stage.QUEUED) for number in (1, 2, 3)))
    assert [each.number for each in found.cancel] == [3, 2]


def test_a_machine_on_its_way_is_never_given_up_for_a_count_that_fell() -> None:
    """GitHub takes an assignment back that no runner took in time, and assigns it again."""
    found = planned(0, runner(1, Stage.STARTING, age=2 * IDLE))
    assert found.cancel == found.retire == ()


@pytest.mark.parametrize(("age", "retired"), [(IDLE - 1.0, 0), (IDLE, 1)])
def test_an_idle_runner_that_is_not_needed_is_retired_after_its_timeout(age: float, retired: int) -> None:
    assert len(planned(0, runner(1, age=age)).retire) == retired


def test_the_oldest_idle_runners_go_first_and_only_the_surplus() -> None:
    found = planned(1, runner(1, age=IDLE + 1), runner(2, age=IDLE + 3), runner(3, age=IDLE + 2))
    assert [each.number for each in found.retire] == [2, 3]


def test_a_busy_runner_is_never_retired() -> None:
    assert planned(0, runner(1, age=2 * AGE, busy=True)).retire == ()


def test_idle_runners_that_should_wait_are_kept_beyond_the_timeout() -> None:
    assert planned(0, runner(1, age=IDLE + 1), min_idle=1).retire == ()


@pytest.mark.parametrize(("age", "retired"), [(AGE - 1.0, 0), (AGE, 1)])
def test_an_old_idle_runner_is_replaced_so_that_its_job_has_time(age: float, retired: int) -> None:
    assert len(planned(0, runner(1, age=age), min_idle=1).retire) == retired


@pytest.mark.parametrize(
    ("age", "waiting", "retired"),
    [(IDLE + 5, IDLE, 1), (IDLE + 5, IDLE - 1, 0), (IDLE - 1, IDLE + 5, 0), (IDLE + 5, None, 0)],
)
def test_a_runner_that_is_passed_over_while_jobs_wait_is_replaced(
    age: float, waiting: float | None, retired: int
) -> None:
    """It may be one that GitHub does not know any more: then the job would wait for ever."""
    assert len(planned(1, runner(1, age=age), waiting=waiting).retire) == retired


def room(
    *,
    cap: int = 10,
    used: int = 0,
    total_cap: int = 100,
    total_used: int = 0,
    others: int = 0,
    ours: int = 0,
    new_most: int | None = None,
) -> Room:
    return Room(
        cap=cap,
        used=used,
        total_cap=total_cap,
        total_used=total_used,
        others=others,
        ours=ours,
        new_most=new_most,
    )


@pytest.mark.parametrize(
    ("given", "most", "expected"),
    [
        (room(), 20, 10),
        (room(), 4, 4),
        (room(used=6, total_used=6, ours=2), 20, 10),
        (room(used=6, total_used=6, others=3), 20, 7),
        (room(total_cap=8, total_used=7, used=2), 20, 3),
        (room(used=6, total_used=6, ours=2, new_most=0), 20, 2),
        (room(used=6, total_used=6, ours=2, new_most=1), 20, 3),
        (room(cap=1, used=5, others=5), 20, 0),
    ],
    ids=[
        "the cap of the template",
        "the most of the set",
        "warm nodes and ours are free for the set",
        "others' machines are not",
        "the cap over all templates, less what others have",
        "nothing new while paused",
        "one try after failures",
        "a cap that was lowered below what is used",
    ],
)
def test_the_capacity_is_what_we_have_and_what_is_really_free(given: Room, most: int, expected: int) -> None:
    assert capacity(given, most) == expected
