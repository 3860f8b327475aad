"""Boots, their distributions and how nodes feel, over HTTP."""

import pytest

from muster.client import calls
from muster.domain.access import Role
from muster.domain.boot import Mark
from muster.domain.deadlines import Limits
from muster.domain.errors import NotFound
from muster.domain.health import Health
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.wire.boots import Timeline
from tests.api.site import Site
from tests.domain.builders import node


async def test_a_node_is_shown_with_how_it_feels_and_how_far_its_boot_is(site: Site) -> None:
    await site.template()
    client = site.client(Role.VIEWER)
    operation = await site.provisioned(site.client())
    node_id = operation.members[0].node_id

    async def ready() -> bool:
        return (await client.send(calls.node(node_id))).health is Health.READY

    await site.until(ready)
    node = await client.send(calls.node(node_id))
    assert (node.phase, node.step) == ("booted", "")
    assert node.health_since is not None and node.health_source is not None
    assert [each.health for each in (await client.send(calls.nodes())).items] == [Health.READY]


async def test_a_boots_timeline_adds_up(site: Site) -> None:
    await site.template()
    client = site.client(Role.VIEWER)
    operation = await site.provisioned(site.client(), count=2)
    found = await client.send(calls.boot(operation.members[0].node_id))
    assert found.booted_at is not None
    assert found.spans[0].name == "launch"
    assert sum(span.seconds for span in found.spans) == pytest.approx(found.seconds, abs=0.01)
    assert found.usual is not None and found.usual.count == 1, "beside the others of its kind"
    with pytest.raises(NotFound):
        await client.send(calls.boot("no-such-node"))


MARKS = [Mark(at=110.0, phase="joined"), Mark(at=120.0, phase="boot_script")]
GIVEN_UP = Mark(at=150.0, phase="given_up")


@pytest.mark.parametrize("state", [NodeState.FAILED, NodeState.TERMINATING, NodeState.TERMINATED])
def test_a_boot_that_failed_lasted_until_it_was_given_up_whatever_became_of_the_node(
    state: NodeState,
) -> None:
    failed = node(state, created_at=100.0, entered_at=400.0, booted_at=None, reason=Reason.BOOT_STALLED)
    found = Timeline.of(failed, [*MARKS, GIVEN_UP], (), now=900.0)
    assert (found.seconds, [(span.name, span.seconds) for span in found.spans]) == (
        50.0,
        [("launch", 10.0), ("joined", 10.0), ("boot_script", 30.0)],
    )


def test_a_boot_that_was_rescued_shows_how_long_it_was_given_up() -> None:
    rescued = node(NodeState.IDLE, created_at=100.0, entered_at=400.0, booted_at=175.0)
    marks = [*MARKS, GIVEN_UP, Mark(at=175.0, phase="booted")]
    found = Timeline.of(rescued, marks, (), now=900.0)
    assert [(span.name, span.seconds) for span in found.spans][-2:] == [
        ("boot_script", 30.0),
        ("given_up", 25.0),
    ]
    assert found.seconds == 75.0


async def test_a_templates_boots_are_shown_with_what_they_are_given(site: Site) -> None:
    await site.template(provision_timeout=100.0, max_provision_timeout=150.0)
    client = site.client(Role.VIEWER)
    before = await client.send(calls.boots("ci"))
    assert (before.kinds, before.ceiling_seconds) == ((), 150.0)
    assert (before.deadline.seconds, before.deadline.source) == (100.0, "template")
    await site.provisioned(site.client(), count=2)
    (kind,) = (await client.send(calls.boots("ci"))).kinds
    assert (kind.total.count, len(kind.last), kind.learned) == (2, 2, None)
    assert (kind.deadline.seconds, kind.deadline.source) == (100.0, "template")
    assert kind.phases[0].name == "launch"
    (shown,) = (await site.http().get("/api/v1/templates/ci/boots")).json()["kinds"]
    assert shown["seconds"] == [boot["seconds"] for boot in shown["last"]], "all that are known, newest first"
    with pytest.raises(NotFound):
        await client.send(calls.boots("nobody"))


async def test_without_a_word_of_its_own_a_template_is_given_the_default(site: Site) -> None:
    await site.template()
    found = await site.client().send(calls.boots("ci"))
    assert (found.deadline.seconds, found.deadline.source) == (Limits().boot, "default")
