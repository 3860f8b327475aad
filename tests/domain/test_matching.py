import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand, fits, reuse_allows, suits, type_matches
from muster.domain.template import Reuse, UsageClass
from tests.domain.builders import NOW, REVISION, SMALLEST, idle, modest, node

DEMAND = Demand(
    template="web",
    revision=REVISION,
    resource_class="large",
    usage=(UsageClass.SPOT, UsageClass.ON_DEMAND),
    instance_types=("c*", "m5.*"),
    reuse=Reuse.SAME_OWNER,
    owner="alice",
)
SINCE = NOW - 20
SPECIAL = "abAB.*?[]!-+()\\^$|{} \n"


def oracle(instance_type: str, patterns: list[str]) -> bool:
    """The rule once more, by way of a regular expression."""
    for pattern in patterns:
        expression = ".*".join(re.escape(piece) for piece in pattern.split("*"))
        if re.fullmatch(expression, instance_type, re.IGNORECASE | re.DOTALL):
            return True
    return False


@modest
@given(st.text(SPECIAL, max_size=8), st.lists(st.text(SPECIAL, max_size=5), max_size=3))
@example("a", ["?"])
@example("a", ["[a]"])
@example("[a]", ["[A]"])
@example("axb", ["a.b"])
@example("a\nb", ["a*b"])
@example("a\n", ["a"])
def test_types_match_as_a_regular_expression_would(instance_type: str, patterns: list[str]) -> None:
    assert type_matches(instance_type, patterns) is oracle(instance_type, patterns)


@modest
@given(st.data())
def test_what_stands_for_a_star_makes_no_difference(data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.text("ab.", max_size=3), min_size=1, max_size=4))
    filled = "".join(piece + data.draw(st.text("xyz", max_size=3)) for piece in pieces[:-1]) + pieces[-1]
    assert type_matches(filled.upper(), ["*".join(pieces)])


@pytest.mark.parametrize(
    ("instance_type", "pattern", "matches"),
    [
        ("c5.large", "c*", True),
        ("C5.LARGE", "c*", True),
        ("c5.large", "C5.Large", True),
        ("m5.large", "*", True),
        ("", "*", True),
        ("c5.large", "5*", False),
        ("c5.large", "c5", False),
        ("xc5", "c5", False),
        ("c5xlarge", "c5.large", False),
        ("m5.large", "c*", False),
    ],
)
def test_a_pattern_is_anchored_and_ignores_case(instance_type: str, pattern: str, matches: bool) -> None:
    assert type_matches(instance_type, [pattern]) is matches


def test_one_matching_pattern_is_enough_and_none_match_nothing() -> None:
    assert type_matches("m5.large", ["c*", "m*"])
    assert not type_matches("m5.large", [])


@pytest.mark.parametrize(
    ("reuse", "last_owner", "allowed"),
    [
        (Reuse.NEVER, None, True),
        (Reuse.NEVER, "alice", False),
        (Reuse.NEVER, "bob", False),
        (Reuse.SAME_OWNER, None, True),
        (Reuse.SAME_OWNER, "alice", True),
        (Reuse.SAME_OWNER, "bob", False),
        (Reuse.ALWAYS, None, True),
        (Reuse.ALWAYS, "alice", True),
        (Reuse.ALWAYS, "bob", True),
    ],
)
def test_the_reuse_rule_decides_who_gets_a_used_node(
    reuse: Reuse, last_owner: str | None, allowed: bool
) -> None:
    assert reuse_allows(reuse, last_owner, "alice") is allowed
    assert suits(idle(last_owner=last_owner), replace(DEMAND, reuse=reuse)) is allowed


@pytest.mark.parametrize(
    "other",
    [
        {"template": "db"},
        {"revision": REVISION - 1},
        {"revision": REVISION + 1},
        {"resource_class": "small"},
        {"instance_type": "r5.large"},
        {"last_owner": "bob"},
    ],
)
def test_one_wrong_property_makes_a_node_unsuitable(other: dict[str, Any]) -> None:
    assert suits(idle(), DEMAND)
    assert not suits(idle(**other), DEMAND)
    assert not _fits(idle(**other))


def test_any_of_the_named_usage_classes_suits() -> None:
    spot = idle(usage_class=UsageClass.SPOT)
    assert suits(spot, DEMAND)
    assert not suits(spot, replace(DEMAND, usage=(UsageClass.ON_DEMAND,)))


@pytest.mark.parametrize("state", NodeState)
def test_only_an_idle_node_can_be_claimed_though_any_may_suit(state: NodeState) -> None:
    assert suits(node(state), DEMAND)
    assert _fits(node(state)) is (state is NodeState.IDLE)


def test_a_draining_node_cannot_be_claimed() -> None:
    assert not _fits(idle(drain=True))


@pytest.mark.parametrize(("left", "fit"), [(SMALLEST, True), (0.0, False), (-SMALLEST, False), (None, True)])
def test_a_node_can_be_claimed_until_its_deadline(left: float | None, fit: bool) -> None:
    assert _fits(idle(deadline_at=None if left is None else NOW + left)) is fit


@pytest.mark.parametrize(("age", "fit"), [(-SMALLEST, True), (0.0, True), (SMALLEST, False)])
def test_a_heartbeat_as_old_as_the_limit_is_still_fresh(age: float, fit: bool) -> None:
    assert fits(idle(), DEMAND, seen_at=SINCE - age, seen_since=SINCE, now=NOW) is fit


def test_a_node_that_was_never_seen_cannot_be_claimed() -> None:
    assert not fits(idle(), DEMAND, seen_at=None, seen_since=SINCE, now=NOW)


def _fits(candidate: Any) -> bool:
    return fits(candidate, DEMAND, seen_at=NOW, seen_since=SINCE, now=NOW)
