from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.matching import Demand, suits
from muster.domain.node import Node
from muster.domain.pool_plan import RENEWED_BEFORE, PoolPlan, Warm, evictable, plan, settled_until
from muster.domain.template import Reuse, Template, UsageClass
from tests.domain.builders import NOW, REVISION, SMALLEST, idle, modest, template

OLD = REVISION - 1
LASTING = NOW + 10_000
IDLE_TIMEOUT = 360.0


def planned(
    nodes: Sequence[Node],
    *,
    min_idle: int,
    room: int = 10,
    leaving: int = 0,
    refilling: bool = False,
    **spec: Any,
) -> PoolPlan:
    current = template(**{"min_idle": min_idle, "idle_timeout": IDLE_TIMEOUT, **spec})
    return plan(current, Warm.of(current, nodes), room=room, leaving=leaving, refilling=refilling, now=NOW)


def settled(current: Template, nodes: Sequence[Node]) -> float:
    return settled_until(current, Warm.of(current, nodes))


def new(n: int, **fields: Any) -> Node:
    return idle(n, **({"deadline_at": LASTING} | fields))


def old(n: int, **fields: Any) -> Node:
    return new(n, **({"revision": OLD} | fields))


NOTHING = PoolPlan(refill=0, renew=(), retire=())


def test_a_full_pool_needs_nothing() -> None:
    assert planned([new(1), new(2)], min_idle=2) == NOTHING
    assert planned([], min_idle=0) == NOTHING


def test_what_is_missing_is_made_as_far_as_there_is_room() -> None:
    assert planned([new(1)], min_idle=4).refill == 3
    assert planned([new(1)], min_idle=4, room=3).refill == 3
    assert planned([new(1)], min_idle=4, room=2).refill == 2
    assert planned([new(1)], min_idle=4, room=0).refill == 0
    assert planned([new(1)], min_idle=4, room=-5).refill == 0


def test_one_refill_at_a_time() -> None:
    assert planned([], min_idle=4, refilling=True) == NOTHING


def test_old_nodes_go_once_their_replacements_are_idle() -> None:
    assert planned([old(1), old(2), new(3), new(4)], min_idle=2).retire == (old(1), old(2))
    assert planned([old(1), old(2), new(3)], min_idle=2).retire == (old(1),)
    assert planned([old(1), old(2)], min_idle=2) == PoolPlan(refill=2, renew=(), retire=())


def test_without_a_minimum_old_nodes_go_at_once() -> None:
    assert planned([old(1), old(2)], min_idle=0).retire == (old(1), old(2))


def test_nodes_of_a_newer_revision_than_the_one_read_are_not_old() -> None:
    assert planned([new(1, revision=REVISION + 1)], min_idle=1) == NOTHING


def test_without_room_one_old_node_makes_place_at_a_time() -> None:
    pool = [old(1), old(2), old(3)]
    assert planned(pool, min_idle=3, room=0) == PoolPlan(refill=0, renew=(), retire=(old(1),))
    assert planned(pool, min_idle=3, room=-1).retire == (old(1),)


@pytest.mark.parametrize("busy", [{"room": 1}, {"refilling": True}, {"leaving": 1}])
def test_no_old_node_goes_early_while_room_is_there_or_coming(busy: dict[str, Any]) -> None:
    assert planned([old(1), old(2)], min_idle=2, **({"room": 0} | busy)).retire == ()


def test_nodes_made_for_a_special_request_do_not_hold_the_minimum() -> None:
    special = [new(1, resource_class="small"), new(2, usage_class=UsageClass.SPOT)]
    assert planned(special, min_idle=2) == PoolPlan(refill=2, renew=(), retire=())
    either = planned(special[1:], min_idle=1, usage=tuple(UsageClass))
    assert either == NOTHING


@pytest.mark.parametrize("reuse", [Reuse.SAME_OWNER, Reuse.NEVER])
def test_nodes_that_became_one_owners_own_do_not_hold_the_minimum(reuse: Reuse) -> None:
    owned = [new(n, last_owner="bob", deadline_at=NOW) for n in (1, 2)]
    fresh = [new(n, deadline_at=NOW) for n in (3, 4)]
    assert planned(owned, min_idle=2, reuse=reuse) == PoolPlan(refill=2, renew=(), retire=())
    assert planned([*owned, *fresh], min_idle=2, reuse=reuse).renew == tuple(fresh)
    assert planned(owned, min_idle=2, reuse=Reuse.ALWAYS).renew == tuple(owned)


@pytest.mark.parametrize(("later", "renewed"), [(-SMALLEST, True), (0.0, True), (SMALLEST, False)])
@pytest.mark.parametrize(
    ("idle_timeout", "left"),
    [
        (RENEWED_BEFORE, RENEWED_BEFORE / 2),
        (2 * RENEWED_BEFORE, RENEWED_BEFORE),
        (4 * RENEWED_BEFORE, RENEWED_BEFORE),
        (8 * RENEWED_BEFORE, 2 * RENEWED_BEFORE),
    ],
)
def test_nodes_that_hold_the_minimum_are_renewed_in_the_last_part_of_their_time(
    idle_timeout: float, left: float, later: float, renewed: bool
) -> None:
    """The last quarter; for short times sooner, so that another replica can do it if one dies."""
    node = new(1, deadline_at=NOW + left + later)
    for min_idle in (1, 2):
        found = planned([node], min_idle=min_idle, idle_timeout=idle_timeout)
        assert found.renew == ((node,) if renewed else ())


def test_only_as_many_as_the_minimum_are_renewed_and_no_old_ones() -> None:
    soon = [new(n, deadline_at=NOW) for n in range(3)]
    aged = [old(n, deadline_at=NOW) for n in (7, 8)]
    assert planned([*aged, *soon], min_idle=2).renew == tuple(soon[:2])
    assert planned(aged, min_idle=2).renew == ()


def test_a_node_without_a_deadline_needs_no_renewal() -> None:
    assert planned([new(1, deadline_at=None)], min_idle=1).renew == ()


def test_a_settled_pool_needs_something_again_when_its_first_node_is_renewed() -> None:
    spec = template(min_idle=2, idle_timeout=4 * RENEWED_BEFORE)
    later, sooner, surplus = (
        new(n, deadline_at=NOW + left) for n, left in ((1, 900.0), (2, 500.0), (3, 10.0))
    )
    assert settled(spec, [later, sooner, surplus]) == NOW + 500.0 - RENEWED_BEFORE
    assert settled(spec, [new(1, deadline_at=None), later]) == NOW + 900.0 - RENEWED_BEFORE
    assert settled(template(min_idle=0), [later]) == inf
    assert settled(spec, [later]) == 0.0, "one is missing"
    assert settled(spec, [later, sooner, old(4)]) == 0.0, "an old one is to go"


kinds = st.builds(
    lambda n, revision, size, left: idle(n, revision=revision, resource_class=size, deadline_at=NOW + left),
    st.integers(0, 999),
    st.sampled_from([OLD, REVISION]),
    st.sampled_from(["large", "large", "small"]),
    st.floats(0, 500),
)


@modest
@given(
    st.lists(kinds, max_size=8, unique_by=lambda node: node.id),
    st.integers(0, 5),
    st.integers(-2, 5),
    st.integers(0, 2),
    st.booleans(),
)
def test_a_plan_never_overfills_or_empties_the_pool(
    pool: list[Node], min_idle: int, room: int, leaving: int, refilling: bool
) -> None:
    made = planned(pool, min_idle=min_idle, room=room, leaving=leaving, refilling=refilling)
    current = [node for node in pool if node.revision == REVISION and node.resource_class == "large"]
    aged = [node for node in pool if node.revision == OLD]
    assert 0 <= made.refill <= max(room, 0)
    assert made.refill == 0 or (len(current) + made.refill <= min_idle and not refilling)
    assert set(made.retire) <= set(aged)
    assert set(made.renew) <= set(current) and len(made.renew) <= min_idle
    left = len(current) + len(aged) - len(made.retire)
    forced = room <= 0 and not refilling and not leaving and len(made.retire) == 1
    assert left >= min(min_idle, len(current) + len(aged)) or forced
    if len(current) >= min_idle:
        assert set(made.retire) == set(aged)


@modest
@given(st.lists(kinds, max_size=8, unique_by=lambda node: node.id), st.integers(0, 5), st.floats(0, 500))
def test_before_it_is_settled_until_a_pool_needs_nothing_and_from_then_on_it_may(
    pool: list[Node], min_idle: int, later: float
) -> None:
    spec = template(min_idle=min_idle, idle_timeout=IDLE_TIMEOUT)
    now = NOW + later
    warm = Warm.of(spec, pool)
    made = plan(spec, warm, room=10, leaving=0, refilling=False, now=now)
    assert (made == NOTHING) == (now < settled_until(spec, warm))


# --- eviction -------------------------------------------------------------------------------------

DEMAND = Demand(
    template="web",
    revision=REVISION,
    resource_class="large",
    usage=(UsageClass.ON_DEMAND,),
    instance_types=("*",),
    reuse=Reuse.SAME_OWNER,
    owner="alice",
)
TEMPLATES = {
    "web": template(min_idle=9),
    "db": template(name="db", min_idle=2),
    "ml": template(name="ml", min_idle=0),
}


def evicted(pool: Sequence[Node], *, everywhere: bool) -> list[str]:
    return [node.id for node in evictable(pool, DEMAND, TEMPLATES, everywhere=everywhere)]


def test_inside_the_template_only_what_does_not_suit_is_in_the_way() -> None:
    pool = [new(1), old(2), new(3, last_owner="bob"), new(4, resource_class="small"), new(5, template="db")]
    assert evicted(pool, everywhere=False) == ["node-2", "node-3", "node-4"]


def test_everywhere_the_spare_nodes_of_other_templates_go_too_after_the_own_ones() -> None:
    pool = [new(n, template="db") for n in (1, 2, 3)] + [new(4, template="ml"), old(5)]
    assert evicted(pool, everywhere=True) == ["node-5", "node-3", "node-4"]


def test_old_nodes_and_nodes_of_forgotten_templates_hold_no_minimum() -> None:
    pool = [old(1, template="db"), new(2, template="gone"), new(3, template="db"), new(4, template="db")]
    assert evicted(pool, everywhere=True) == ["node-1", "node-2"]


def test_a_special_node_of_another_template_goes_before_one_that_holds_its_minimum() -> None:
    pool = [new(1, template="db", resource_class="small"), new(2, template="db"), new(3, template="db")]
    assert evicted(pool, everywhere=True) == ["node-1"]


def test_a_node_that_is_one_owners_own_goes_before_one_that_holds_its_minimum() -> None:
    pool = [new(1, template="db", last_owner="bob"), new(2, template="db"), new(3, template="db")]
    assert evicted(pool, everywhere=True) == ["node-1"]


mixed = st.builds(
    lambda n, name, revision, size, owner: idle(
        n, template=name, revision=revision, resource_class=size, last_owner=owner
    ),
    st.integers(0, 999),
    st.sampled_from(["web", "db", "ml", "gone"]),
    st.sampled_from([OLD, REVISION]),
    st.sampled_from(["large", "small"]),
    st.sampled_from([None, "alice", "bob"]),
)


@modest
@given(st.lists(mixed, max_size=10, unique_by=lambda node: node.id), st.booleans())
def test_an_eviction_spares_what_suits_and_every_other_templates_minimum(
    pool: list[Node], everywhere: bool
) -> None:
    gone = evictable(pool, DEMAND, TEMPLATES, everywhere=everywhere)
    assert len(gone) == len(set(gone)) and set(gone) <= set(pool)
    assert not any(suits(node, DEMAND) for node in gone)
    assert everywhere or all(node.template == "web" for node in gone)
    for name in ("db", "ml"):
        holding = [
            node
            for node in pool
            if node.template == name
            and node.revision == REVISION
            and node.resource_class == "large"
            and node.last_owner is None
        ]
        kept = [node for node in holding if node not in gone]
        assert len(kept) >= min(len(holding), TEMPLATES[name].spec.min_idle)
        if everywhere:
            assert len(kept) == min(len(holding), TEMPLATES[name].spec.min_idle)
