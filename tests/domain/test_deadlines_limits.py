"""Deadlines: what is told of them, and which of two times counts."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.boot import Learned
from muster.domain.deadlines import (
    COLLECTING,
    EXTENSION,
    Deadline,
    DeadlineContext,
    Extended,
    Limits,
    Overdue,
    Watch,
    attach_timeout,
    dead_man,
    failed_until,
    for_operation,
    for_provision,
    judge,
    later_deadline,
    resolve_boot,
)
from muster.domain.errors import InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Kind
from muster.domain.reasons import Reason
from muster.domain.template import Runtime
from tests.domain.builders import LIMITS, NOW, SMALLEST, attached, node, operation, spec

SPEC = spec()


def context(**fields: Any) -> DeadlineContext:
    given: dict[str, Any] = {
        "operation": operation(),
        "template": SPEC,
        "advanced_at": NOW,
        "watch": Watch(since=0.0),
        "now": NOW,
        "limits": LIMITS,
    }
    return DeadlineContext(**(given | fields))


# --- resolving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["boot_exec", "boot_service"])
def test_a_runtime_s_own_limit_is_checked_if_it_is_given(field: str) -> None:
    values: dict[str, Any] = {field: -1.0}
    with pytest.raises(InvalidRequest) as refused:
        Limits(**values)
    assert refused.value.field == field
    assert getattr(Limits(), field) is None


def test_a_limit_of_an_integration_s_runtime_is_checked_too() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Limits(boot_runtimes={"github": -1.0})
    assert refused.value.field == "boot_github"


def test_an_integration_may_name_how_long_its_runtime_attaches() -> None:
    kitted = replace(SPEC, runtime="github")
    assert attach_timeout(kitted, Limits(attach_runtimes={"github": 7.0})) == 7.0
    assert attach_timeout(kitted, Limits()) == attach_timeout(kitted) == 120.0
    assert attach_timeout(replace(kitted, attach_timeout=3.0), Limits(attach_runtimes={"github": 7.0})) == 3.0


@pytest.mark.parametrize("runtime", Runtime)
def test_each_runtime_has_a_limit_of_its_own(runtime: Runtime) -> None:
    values: dict[str, Any] = {f"boot_{runtime}": 77.0}
    assert {each: Limits(**values).boot_for(each) for each in Runtime} == {
        each: 77.0 if each is runtime else None for each in Runtime
    }


@pytest.mark.parametrize("side", [-SMALLEST, 0.0, SMALLEST])
def test_a_ceiling_holds_for_what_resolves_above_it_and_is_then_its_source(side: float) -> None:
    ceiling = LIMITS.boot + side
    found = resolve_boot(timeout=None, template=spec(max_provision_timeout=ceiling), limits=LIMITS)
    if side < 0:
        assert found == Deadline(seconds=ceiling, source="template")
    else:
        assert found == Deadline(seconds=LIMITS.boot, source="default")


def test_what_was_learned_lengthens_provisions_and_refills() -> None:
    learned = Learned(seconds=LIMITS.boot + 100, basis="p99 of 20 boots")
    provision = for_provision(timeout=None, queue_timeout=0.0, template=SPEC, limits=LIMITS, learned=learned)
    assert provision.seconds == LIMITS.launching + learned.seconds + attach_timeout(SPEC)
    assert provision.source == "learned (p99 of 20 boots)"
    refill = for_operation(Kind.REFILL, template=SPEC, limits=LIMITS, learned=learned)
    assert refill == Deadline(seconds=LIMITS.launching + learned.seconds, source=provision.source)


# --- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "late",
    [
        node(NodeState.FAILED, deadline_at=NOW),
        node(NodeState.RUNNING, deadline_at=NOW),
        node(NodeState.IDLE, deadline_at=NOW),
        node(NodeState.RELEASING, deadline_at=NOW),
        node(NodeState.CREATED, deadline_at=NOW),
        node(NodeState.CREATED, booted_at=NOW - 1, deadline_at=NOW),
        attached(deadline_at=NOW),
    ],
    ids=["failed", "running", "idle", "releasing", "booting", "attaching", "attached"],
)
def test_an_overrun_is_told_with_its_time_its_state_and_whose_deadline_it_was(late: Any) -> None:
    past = operation(deadline_at=NOW - LIMITS.after_operation)
    found = judge(late, context(operation=past, advanced_at=None))
    assert isinstance(found, Overdue)
    assert found.detail == f"{NOW - late.entered_at:.0f} s in {late.state}, deadline from default"


@pytest.mark.parametrize(
    ("phase", "step", "told"),
    [("boot_script", "apt", "boot_script (apt)"), ("boot_script", "", "boot_script"), ("", "", "its boot")],
)
def test_a_boot_is_told_where_it_is(phase: str, step: str, told: str) -> None:
    booting = node(NodeState.CREATED, deadline_at=NOW, phase=phase, step=step)
    extended = judge(booting, context())
    assert isinstance(extended, Extended)
    assert extended.detail == f"still advancing in {told}"
    still = NOW - LIMITS.stall_after - 1
    stalled = judge(booting, context(advanced_at=still))
    assert isinstance(stalled, Overdue)
    assert stalled.detail == f"{LIMITS.stall_after + 1:.0f} s without a sign of advance in {told}"


# --- which time counts ----------------------------------------------------------------------------


def test_a_ceiling_between_the_deadline_and_now_extends_nothing() -> None:
    entered = NOW - 100.0
    late = node(NodeState.CREATED, entered_at=entered, deadline_at=NOW - 20)
    found = judge(late, context(template=spec(max_provision_timeout=90.0)))
    assert isinstance(found, Overdue)
    assert found.reason is Reason.BOOT_TIMEOUT


def test_a_node_without_a_deadline_is_in_time() -> None:
    assert judge(node(NodeState.CREATED, deadline_at=None), context()) is None


def test_a_failure_that_no_boot_can_disprove_is_kept_for_collecting_alone() -> None:
    template = spec(rescue_window=COLLECTING + 50)
    assert failed_until(Reason.BOOT_SCRIPT_FAILED, template, now=NOW) == NOW + COLLECTING
    assert failed_until(Reason.BOOT_STALLED, template, now=NOW) == NOW + COLLECTING + 50


def test_an_operation_waits_for_the_latest_of_its_extended_boots() -> None:
    waiting = operation(deadline_at=NOW)
    early = node(NodeState.CREATED, 1, deadline_at=NOW + 1, deadline_source=EXTENSION)
    late = replace(early, deadline_at=NOW + 60)
    none = replace(early, deadline_at=None)
    assert later_deadline(waiting, [early, late, none], SPEC) == NOW + 60 + attach_timeout(SPEC)


def test_an_operation_without_extended_boots_keeps_its_deadline() -> None:
    assert later_deadline(operation(deadline_at=NOW), [node(NodeState.CREATED)], SPEC) is None


def test_a_booting_node_under_an_assignment_may_take_its_longest_boot_and_run() -> None:
    booting = node(NodeState.CREATED, entered_at=NOW, deadline_at=None)
    found = dead_man(booting, operation(deadline_at=NOW), SPEC, max_runtime=50.0, now=NOW, limits=LIMITS)
    up = replace(booting, booted_at=NOW)
    base = dead_man(up, operation(deadline_at=NOW), SPEC, max_runtime=50.0, now=NOW, limits=LIMITS)
    assert found - base == 2 * LIMITS.boot + attach_timeout(SPEC)
