"""The claim in SQL and `matching.fits` are one rule, told twice; this holds them together."""

import asyncio
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain import matching
from muster.domain.ids import NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Node
from muster.domain.template import Reuse, UsageClass
from muster.ports.store import Beat
from muster.stores.sql import open_sqlite
from muster.stores.sql.rows import NODE
from tests.contracts.store_contract.records import Records
from tests.stores.ids import CountingIds

NOW = 100.0
_TYPES = st.sampled_from(["m5.large", "M5.Large", "c5.large", "c5", "m5_large", "m5%", "m", "large.m5", "!x"])
_PATTERNS = st.sampled_from(
    ["*", "m*", "M5.*", "*large", "m5.large", "c5", "*5*", "m5_large", "m5%", "m", "**", "m5*e", "!x", "!*"]
)
_OWNERS = st.sampled_from(["acme", "other", "third"])
_TIMES = st.sampled_from([None, 89.9, 90.0, 99.9, 100.0, 100.1, 500.0])
_CLASSES = st.sampled_from(["small", "large"])


@st.composite
def _nodes(draw: st.DrawFn) -> tuple[Node, float | None]:
    node = Node(
        id=NodeId("node"),
        template=draw(st.sampled_from(["web", "api"])),
        revision=draw(st.integers(1, 2)),
        provider="simulated",
        resource_class=draw(_CLASSES),
        usage_class=draw(st.sampled_from(UsageClass)),
        instance_type=draw(_TYPES),
        machine_id="m",
        launch_id=None,
        state=draw(st.sampled_from([NodeState.IDLE] * 6 + [NodeState.RUNNING, NodeState.TERMINATING])),
        created_at=1.0,
        entered_at=draw(st.sampled_from([1.0, 2.0, 3.0])),
        deadline_at=draw(_TIMES),
        last_owner=draw(st.none() | _OWNERS),
        drain=draw(st.sampled_from([False, False, False, True])),
    )
    return node, draw(_TIMES)


_DEMANDS = st.builds(
    Demand,
    template=st.sampled_from(["web", "web", "api"]),
    revision=st.integers(1, 2),
    resource_class=_CLASSES,
    usage=st.lists(st.sampled_from(UsageClass), min_size=1, max_size=2, unique=True).map(tuple),
    instance_types=st.lists(_PATTERNS, min_size=1, max_size=3).map(tuple),
    reuse=st.sampled_from(Reuse),
    owner=_OWNERS,
)


@settings(max_examples=150, deadline=None)
@given(drawn=st.lists(_nodes(), max_size=12), demand=_DEMANDS, size=st.integers(1, 14))
def test_a_claim_takes_exactly_the_nodes_that_fit_in_the_promised_order(
    drawn: list[tuple[Node, float | None]], demand: Demand, size: int
) -> None:
    asyncio.run(_compare(drawn, demand, size))


async def _compare(drawn: list[tuple[Node, float | None]], demand: Demand, size: int) -> None:
    store = open_sqlite(":memory:", ids=CountingIds(), inline=True)
    records = Records(store)
    nodes: list[tuple[Node, float | None]] = []
    for number, (node, seen_at) in enumerate(drawn):
        named = replace(node, id=NodeId(f"node-{number:02d}"), machine_id=f"m-{number}")
        nodes.append((named, seen_at))
        # No verb makes such a mix at once, so it is put there directly.
        await store._engine.write(lambda tx, named=named: tx.change(NODE.insert, NODE.params(named)))  # type: ignore[misc]
        if seen_at is not None:
            await store.record_beats([Beat(node_id=named.id, seen_at=seen_at)])
    fitting = [
        node
        for node, seen_at in nodes
        if matching.fits(node, demand, seen_at=seen_at, seen_since=90.0, now=NOW)
    ]
    fitting.sort(key=lambda node: (node.last_owner != demand.owner, -node.entered_at, node.id))
    assert await store.count_claimable(demand, seen_since=90.0, now=NOW) == len(fitting)
    taken = await records.claim(await records.leased(), size, demand=demand, seen_since=90.0, now=NOW)
    assert [node.id for node in taken] == [node.id for node in fitting[:size]]
    await store.close()
