from collections.abc import Callable, Sequence

from hypothesis import given, settings

from muster.domain import events, plain
from muster.domain import launch as launches
from muster.domain import node as nodes
from muster.domain import operation as operations
from muster.domain.events import LEASE_FIELDS, Draft, Entity
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node, NodeChange
from muster.domain.operation import Operation, Status, Step, Verdict
from muster.domain.plain import Plain
from muster.domain.reasons import Reason
from tests.domain import strategies
from tests.domain.builders import NOW, launch, modest, node, operation, progress, template


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
        assert plain.from_plain(Node, fold(drafts[:length])) == change.after
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
    assert plain.from_plain(launches.Launch, fold(drafts)) == done
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
    last = plain.fields_to_plain(changes[-1].after)
    assert fold(drafts) == {name: value for name, value in last.items() if name not in LEASE_FIELDS}
    assert [draft.name for draft in drafts] == [Step.SUBMITTED, *(change.name for change in changes)]
    assert [draft.version for draft in drafts] == list(range(1, len(drafts) + 1))
    assert all((draft.entity, draft.entity_id) == (Entity.OPERATION, "op-1") for draft in drafts)


def test_the_lease_fields_are_fields_of_an_operation() -> None:
    assert set(LEASE_FIELDS) == {"lease_owner", "lease_until", "epoch", "version"}
    assert set(LEASE_FIELDS) < set(plain.field_names(Operation))


@settings(modest, max_examples=30)
@given(strategies.operations)
def test_no_event_of_an_operation_tells_of_its_lease(submitted: Operation) -> None:
    draft = events.of_submission(submitted)
    assert not set(draft.changes) & set(LEASE_FIELDS)
    assert set(draft.changes) | set(LEASE_FIELDS) == set(plain.field_names(Operation))


def test_an_applied_template_is_an_event_with_all_of_it() -> None:
    applied = template(revision=8)
    assert events.of_template(applied) == Draft(
        entity=Entity.TEMPLATE,
        entity_id="web",
        version=8,
        name="applied",
        changes=plain.fields_to_plain(applied),
    )
