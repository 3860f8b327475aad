"""Who has nodes right now: by run, the unwell and the urgent first."""

from typing import Any

from muster.domain.health import Health, Vitals
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.overview import NODES_SHOWN, holdings
from tests.domain.builders import NOW, node


def running(number: int, run: str | None, **fields: Any) -> Node:
    operation = None if run is None else OperationId(f"op-{run}")
    given: dict[str, Any] = {"run": run, "operation_id": operation, "deadline_at": NOW + 100.0}
    return node(NodeState.RUNNING, number, **(given | fields))


def feeling(node: Node, health: Health, reason: str = "") -> dict[NodeId, Vitals]:
    return {node.id: Vitals(node_id=node.id, health=health, health_reason=reason)}


def test_the_nodes_of_a_run_are_one_holding_that_ends_with_the_first_of_them() -> None:
    nodes = [running(1, "ci-1"), running(2, "ci-1", deadline_at=NOW + 50.0, drain=True)]
    (found,) = holdings(nodes, feeling(nodes[0], Health.READY))
    assert (found.run, found.operation_id, found.count, found.unwell) == ("ci-1", "op-ci-1", 2, 0)
    assert found.deadline_at == NOW + 50.0
    assert [(each.node_id, each.health, each.drain) for each in found.nodes] == [
        ("node-1", Health.READY, False),
        ("node-2", None, True),
    ]


def test_two_attempts_of_a_run_are_told_apart() -> None:
    again = running(2, "ci-1", operation_id=OperationId("op-later"))
    assert [each.count for each in holdings([running(1, "ci-1"), again], {})] == [1, 1]


def test_runs_with_an_unwell_node_come_first_and_then_those_that_end_soonest() -> None:
    late = running(1, "late", deadline_at=NOW + 900.0)
    soon, ill = running(2, "soon"), running(3, "ill", deadline_at=NOW + 5000.0)
    for health, unwell in ((Health.DEGRADED, 1), (Health.OFFLINE, 1), (Health.STARTING, 0)):
        found = holdings([late, soon, ill], feeling(ill, health))
        assert sum(each.unwell for each in found) == unwell
        expected = ["ill", "soon", "late"] if unwell else ["soon", "late", "ill"]
        assert [each.run for each in found] == expected


def test_few_nodes_of_many_are_shown_and_the_unwell_among_them() -> None:
    nodes = [running(n, "big") for n in range(1, 4 * NODES_SHOWN)]
    (found,) = holdings(nodes, feeling(nodes[-1], Health.DEGRADED, "disk full"))
    assert (found.count, len(found.nodes)) == (len(nodes), NODES_SHOWN)
    assert (found.nodes[0].node_id, found.nodes[0].health_reason) == (nodes[-1].id, "disk full")


def test_apps_run_for_no_run_and_are_one_holding_per_template() -> None:
    apps = [
        running(n, None, template=name, deadline_at=None) for n, name in enumerate(["shop", "web", "shop"])
    ]
    found = holdings(apps, {})
    assert [(each.template, each.run, each.count, each.deadline_at) for each in found] == [
        ("shop", None, 2, None),
        ("web", None, 1, None),
    ]
