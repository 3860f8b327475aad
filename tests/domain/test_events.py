from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from muster.domain import events, serialization
from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.command import CommandState
from muster.domain.diagnosis import WORDS_MOST, ending
from muster.domain.events import LEASE_FIELDS, Draft, Entity, of_command, of_health, of_node
from muster.domain.health import Health, HealthChange, HealthSource, Vitals
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange, rescue
from muster.domain.operation import Operation, OperationEvent, Status, Verdict
from muster.domain.reasons import Reason
from muster.domain.serialization import Plain
from tests.domain import strategies
from tests.domain.builders import NOW, command, launch, modest, node, operation, progress, template


def fold(drafts: Sequence[Draft]) -> dict[str, Plain]:
    record: dict[str, Plain] = {}
    for draft in sorted(drafts, key=lambda draft: draft.version):
        record |= draft.changes
    return record


def _life() -> list[NodeChange]:
    """One node from its launch through the pool to its end."""
    later = NOW + 100
    changes = [nodes.adopt(node(version=1), now=later)]
    writes: list[Callable[[Node], NodeChange]] = [
        lambda n: nodes.joined(n, boot_id="b", now=NOW),
        lambda n: nodes.booted(n, now=NOW + 1, deadline_at=later),
        lambda n: nodes.attached(n, now=NOW + 2, deadline_at=later),
        lambda n: nodes.hand_over(n, now=NOW + 3, deadline_at=later),
        lambda n: nodes.extend(n, now=later, deadline_at=later + 1, source="operator", detail="asked"),
        lambda n: nodes.release(n, now=NOW + 4, deadline_at=later),
        lambda n: nodes.clean(n, now=NOW + 5, deadline_at=later),
        lambda n: nodes.drained(n, now=later),
        lambda n: nodes.condemn(n, now=NOW + 6, reason=Reason.OPERATOR, detail="draining"),
        lambda n: nodes.confirm_gone(n, now=NOW + 7),
    ]
    for write in writes:
        changes.append(write(changes[-1].after))
    return changes


def test_folding_a_nodes_events_rebuilds_every_version_of_it() -> None:
    changes = _life()
    drafts = [events.of_node(change) for change in changes]
    for length, change in enumerate(changes, 1):
        assert serialization.from_plain(Node, fold(drafts[:length])) == change.after
    assert changes[-1].after.state is NodeState.TERMINATED


def test_a_nodes_event_names_its_write_and_holds_what_changed() -> None:
    change = nodes.condemn(node(version=4), now=NOW, reason=Reason.OPERATOR, detail="by hand")
    assert events.of_node(change) == Draft(
        entity=Entity.NODE,
        entity_id="node-1",
        version=5,
        name="condemn",
        changes={
            "state": "terminating",
            "version": 5,
            "entered_at": NOW,
            "deadline_at": None,
            "deadline_source": "",
            "reason": "operator",
            "detail": "by hand",
        },
        detail="by hand",
    )


def test_folding_a_launchs_events_rebuilds_it() -> None:
    first = launch()
    called = launches.calling(first, now=NOW)
    done = launches.settled(called, now=NOW + 1, adopted=1, reason=Reason.PARTIAL_LAUNCH, message="1 of 2")
    drafts = [
        events.of_launch(None, first),
        events.of_launch(first, called),
        events.of_launch(called, done),
    ]
    assert serialization.from_plain(launches.Launch, fold(drafts)) == done
    assert [draft.name for draft in drafts] == ["planned", "calling", "settled"]
    assert [draft.version for draft in drafts] == [1, 2, 3]
    assert drafts[-1].detail == "1 of 2"
    assert all((draft.entity, draft.entity_id) == (Entity.LAUNCH, first.id) for draft in drafts)


def _work() -> list[operations.OperationChange]:
    begun = operations.queued(operation(version=1, status=Status.QUEUED), progress(1), now=NOW)
    resumed = operations.resumed(begun.after, now=NOW + 1)
    shown = operations.progressed(resumed.after, progress(3, 50.0), now=NOW + 2)
    cancel = operations.cancel_requested(shown.after, now=NOW + 3)
    assert cancel is not None
    failing = operations.failing(cancel.after, Verdict(reason=Reason.QUOTA, message="full"), now=NOW + 4)
    ended = operations.ended(failing.after, Status.FAILED, now=NOW + 5, progress=None, result="none")
    return [begun, resumed, shown, cancel, failing, ended]


def test_folding_an_operations_events_rebuilds_all_but_its_lease() -> None:
    changes = _work()
    drafts = [events.of_submission(changes[0].before), *(events.of_operation(change) for change in changes)]
    last = serialization.fields_to_plain(changes[-1].after)
    assert fold(drafts) == {name: value for name, value in last.items() if name not in LEASE_FIELDS}
    assert [draft.name for draft in drafts] == [
        OperationEvent.SUBMITTED,
        *(change.name for change in changes),
    ]
    assert [draft.version for draft in drafts] == list(range(1, len(drafts) + 1))
    assert all((draft.entity, draft.entity_id) == (Entity.OPERATION, "op-1") for draft in drafts)


def test_the_lease_fields_are_fields_of_an_operation() -> None:
    assert set(LEASE_FIELDS) == {"lease_owner", "lease_until", "epoch", "version"}
    assert set(LEASE_FIELDS) < set(serialization.field_names(Operation))


@settings(modest, max_examples=30)
@given(strategies.operations)
def test_no_event_of_an_operation_tells_of_its_lease(submitted: Operation) -> None:
    draft = events.of_submission(submitted)
    assert not set(draft.changes) & set(LEASE_FIELDS)
    assert set(draft.changes) | set(LEASE_FIELDS) == set(serialization.field_names(Operation))


def test_an_applied_template_is_an_event_with_all_of_it() -> None:
    before, applied = replace(template(revision=7), version=11), replace(template(revision=8), version=12)
    for earlier in (None, before):
        assert events.of_template(earlier, applied) == Draft(
            entity=Entity.TEMPLATE,
            entity_id="web",
            version=12,
            name="applied",
            changes=serialization.fields_to_plain(applied),
        )


def test_an_adjusted_template_is_an_event_that_says_what_changed() -> None:
    before = template(revision=7)
    spec = replace(before.spec, min_idle=before.spec.min_idle + 1, provision_timeout=99.0)
    told = events.of_template(before, replace(before, version=2, spec=spec))
    assert (told.name, told.version, told.changes["revision"]) == ("adjusted", 2, 7)
    assert told.detail == f"min_idle {before.spec.min_idle} → {spec.min_idle}, provision_timeout None → 99.0"


def test_a_change_of_health_is_told_whole_under_the_health_s_own_version() -> None:
    before = Vitals(node_id=NodeId("node-1"))
    after = replace(
        before,
        health=Health.OFFLINE,
        health_reason="no heartbeat",
        health_source=HealthSource.RECONCILE,
        health_since=NOW,
        health_version=7,
    )
    assert of_health(HealthChange(before=before, after=after, at=NOW)) == Draft(
        entity=Entity.HEALTH,
        entity_id="node-1",
        version=7,
        name="offline",
        changes={
            "health": "offline",
            "health_reason": "no heartbeat",
            "health_source": "reconcile",
            "health_since": NOW,
        },
        detail="no heartbeat",
    )


def test_a_rescue_is_told_as_one_and_not_as_a_release() -> None:
    failed = node(NodeState.FAILED)
    change = rescue(failed, now=NOW, assignment_id=AssignmentId("as-9"), deadline_at=NOW + 1, detail="late")
    told = of_node(change)
    assert (told.name, told.detail) == ("rescued", "late")


def test_a_command_s_event_carries_its_detail() -> None:
    running = command(state=CommandState.RUNNING)
    lost = replace(running, state=CommandState.LOST, detail="its node is gone", version=running.version + 1)
    assert of_command(running, lost).detail == "its node is gone"


# --- the last words of a section ------------------------------------------------------------------


def test_the_last_lines_are_kept() -> None:
    assert ending("one\ntwo\nthree", lines=2) == "two\nthree"
    assert ending("one", lines=2) == "one"


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_too_many_words_are_cut_at_the_beginning_of_a_line(more: int) -> None:
    last = "x" * (WORDS_MOST - 10)
    first = "y" * (WORDS_MOST + more - len(last) - 1)
    text = f"{first}\n{last}"
    assert len(text) == WORDS_MOST + more
    assert ending(text, lines=5) == (last if more > 0 else text)
