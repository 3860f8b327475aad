from dataclasses import replace
from typing import Any

import pytest

from muster.domain import diagnosis_rules, reasons
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.diagnosis import Cause
from muster.domain.failures import (
    DETAIL_MAX,
    FAULTS,
    ORDERLY,
    Failed,
    Failure,
    grouped,
    of_node,
    of_operation,
)
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.run_decisions import provision_key, release_key
from tests.domain.builders import NOW, node, operation

LONG = "x" * (DETAIL_MAX + 1)


def failure(n: int = 1, what: Failed = Failed.NODE, **fields: Any) -> Failure:
    given: dict[str, Any] = {
        "id": f"{what}-{n}",
        "what": what,
        "at": NOW + n,
        "reason": Reason.BOOT_TIMEOUT,
        "template": "web",
        "revision": 3,
        "node_id": NodeId(f"node-{n}") if what is Failed.NODE else None,
        "operation_id": OperationId("op-1"),
    }
    return Failure(**(given | fields))


# --- what is a failure ----------------------------------------------------------------------------


def test_a_boot_that_fails_is_a_failure_of_its_node_and_revision() -> None:
    change = nodes.fail(
        node(), now=NOW, reason=Reason.BOOT_STALLED, deadline_at=NOW + 60, detail="stood still"
    )
    found = of_node(change)
    assert found == failure(
        id="node-1", at=NOW, reason=Reason.BOOT_STALLED, node_id=NodeId("node-1"), detail="stood still"
    )


@pytest.mark.parametrize("reason", Reason)
def test_a_node_is_condemned_by_a_fault_or_in_the_order_of_things(reason: Reason) -> None:
    running = node(NodeState.RUNNING)
    found = of_node(nodes.condemn(running, now=NOW, reason=reason))
    assert (found is not None) == (reason in FAULTS)
    let_go = nodes.condemn(running, now=NOW, reason=reason, rolled_back=True)
    assert of_node(let_go) is None, "it is let go with its operation"


def test_reasons_that_were_wanted_are_no_faults() -> None:
    wanted = {
        Reason.OPERATOR,
        Reason.CANCELLED,
        Reason.RETIRED,
        Reason.REUSE,
        Reason.IDLE_TIMEOUT,
        Reason.LEFT,
    }
    assert not wanted & FAULTS


def test_the_end_of_a_failed_node_is_no_second_failure() -> None:
    change = nodes.condemn(node(NodeState.FAILED), now=NOW, reason=Reason.MACHINE_GONE)
    assert of_node(change) is None


def test_other_writes_of_a_node_are_no_failures() -> None:
    running = node(NodeState.RUNNING)
    assert of_node(nodes.drained(running, now=NOW)) is None
    released = nodes.release(running, now=NOW, deadline_at=NOW + 60, reason=Reason.HEARTBEAT_LOST)
    assert of_node(released) is None
    doomed = node(NodeState.TERMINATING, reason=Reason.MACHINE_GONE)
    assert of_node(nodes.confirm_gone(doomed, now=NOW)) is None
    assert of_node(nodes.adopt(replace(doomed, reason=Reason.ORPHAN), now=NOW)) is not None
    assert of_node(nodes.adopt(node(), now=NOW)) is None


def test_an_operation_that_failed_is_a_failure_and_one_that_was_cancelled_is_none() -> None:
    verdict = Verdict(reason=Reason.CAPACITY, message=f"{LONG}\nmore", node_id=NodeId("node-7"))

    def told(status: Status) -> Failure | None:
        return of_operation(operations.ended(operation(), status, now=NOW, progress=None, verdict=verdict))

    found = told(Status.FAILED)
    assert found is not None
    assert (found.id, found.what, found.at) == ("op-1", Failed.OPERATION, NOW)
    assert (found.reason, found.node_id, found.detail) == (Reason.CAPACITY, "node-7", LONG[:DETAIL_MAX])
    assert told(Status.CANCELLED) is None and told(Status.SUCCEEDED) is None
    assert of_operation(operations.failing(operation(), verdict, now=NOW)) is None, "it has not ended yet"


@pytest.mark.parametrize("reason", Reason)
def test_an_operation_that_is_ended_early_on_purpose_is_no_failure(reason: Reason) -> None:
    verdict = Verdict(reason=reason, message="the template changed while the refill ran")
    change = operations.ended(operation(), Status.FAILED, now=NOW, progress=None, verdict=verdict)
    assert (of_operation(change) is None) == (reason in ORDERLY)


@pytest.mark.parametrize("key", [provision_key(OperationId("op-0")), release_key(OperationId("op-0"))])
def test_what_a_run_made_for_itself_is_not_counted_beside_it(key: str) -> None:
    verdict = Verdict(reason=Reason.CAPACITY, message="none")
    inner = operation(idempotency_key=key)
    assert (
        of_operation(operations.ended(inner, Status.FAILED, now=NOW, progress=None, verdict=verdict)) is None
    )


# --- groups ---------------------------------------------------------------------------------------


def test_nothing_failed_is_no_group() -> None:
    assert grouped(()) == ()


def test_failures_are_grouped_by_cause_template_and_revision() -> None:
    found = grouped(
        [
            failure(1),
            failure(2),
            failure(3, revision=4),
            failure(4, template="ci"),
            failure(5, reason=Reason.BOOT_STALLED),
            failure(6, cause=Cause.DNS),
            failure(7, cause=Cause.UNKNOWN),
        ]
    )
    told = [(each.cause, each.template, each.revision, each.count) for each in found]
    assert told == [
        ("boot_timeout", "web", 3, 3),
        ("dns", "web", 3, 1),
        ("boot_stalled", "web", 3, 1),
        ("boot_timeout", "ci", 3, 1),
        ("boot_timeout", "web", 4, 1),
    ]


def test_a_group_says_how_long_it_goes_on_and_shows_its_newest() -> None:
    (group,) = grouped([failure(1, detail="first"), failure(3, detail="last"), failure(2)])
    assert (group.first_at, group.last_at) == (NOW + 1, NOW + 3)
    assert (group.node_id, group.operation_id, group.detail) == ("node-3", "op-1", "last")


def test_advice_follows_the_diagnosis_if_there_is_one() -> None:
    known, unknown = grouped([failure(1, cause=Cause.DNS), failure(2, cause=Cause.DNS), failure(3)])
    assert (known.diagnosed, known.advice) == (True, diagnosis_rules.ADVICE[Cause.DNS])
    assert (unknown.diagnosed, unknown.advice) == (False, reasons.ADVICE[Reason.BOOT_TIMEOUT])


def test_an_operation_stands_with_the_node_that_failed_it() -> None:
    blamed = failure(9, Failed.OPERATION, node_id=NodeId("node-1"), revision=None, reason=Reason.BOOT_TIMEOUT)
    (group,) = grouped([blamed, replace(failure(1, cause=Cause.DNS), id="node-1")])
    assert (group.cause, group.nodes, group.operations, group.count) == ("dns", 1, 1, 1)
    assert group.operation_id == "op-1" and group.last_at == NOW + 9


def test_operations_alone_are_counted_by_their_reason() -> None:
    alone = [failure(n, Failed.OPERATION, reason=Reason.CAP_REACHED, revision=None) for n in (1, 2)]
    (group,) = grouped(alone)
    assert (group.cause, group.nodes, group.operations, group.count) == ("cap_reached", 0, 2, 2)
    assert (group.revision, group.node_id) == (None, None)
