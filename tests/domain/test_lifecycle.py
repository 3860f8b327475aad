from pathlib import Path

import pytest

from muster.domain.lifecycle import EDGES, LIVE, MEANING, NodeState, Verb, allowed
from tools import reference

ROOT = Path(__file__).parents[2]

TABLE = """
adopt        ∅                                              → created terminating
pool_in      created                                        → idle
claim        idle                                           → claimed
hand_over    created claimed                                → running
release      running claimed created failed                 → releasing
clean        releasing                                      → idle
fail         created                                        → failed
condemn      created idle claimed running releasing failed  → terminating
confirm_gone terminating                                    → terminated
"""
"""The design's table of verbs, written down a second time on purpose; `extend` keeps the state."""


def _designed() -> set[tuple[str, str | None, str]]:
    edges: set[tuple[str, str | None, str]] = set()
    for line in TABLE.strip().splitlines():
        left, right = line.split("→")
        verb, *sources = left.split()
        for source in sources:
            edges |= {(verb, None if source == "∅" else source, target) for target in right.split()}
    return edges | {("extend", state, state) for state in _live()}


def _live() -> list[str]:
    return [state.value for state in NodeState if state.value not in ("terminating", "terminated")]


def test_the_edges_are_exactly_those_of_the_design() -> None:
    listed = [(str(edge.verb), edge.source and str(edge.source), str(edge.target)) for edge in EDGES]
    assert set(listed) == _designed()
    assert len(listed) == len(set(listed))


def test_each_pair_of_states_is_joined_by_one_verb_at_most() -> None:
    pairs = [(edge.source, edge.target) for edge in EDGES]
    assert sorted(map(str, pairs)) == sorted(map(str, set(pairs)))


def test_only_extend_stays_in_its_state() -> None:
    staying = {edge.verb for edge in EDGES if edge.source is edge.target}
    assert staying == {Verb.EXTEND}
    assert all(edge.source is edge.target for edge in EDGES if edge.verb is Verb.EXTEND)


def test_nothing_leaves_terminated() -> None:
    assert not [edge for edge in EDGES if edge.source is NodeState.TERMINATED]


def test_terminating_leads_to_terminated_and_nowhere_else() -> None:
    assert {edge.target for edge in EDGES if edge.source is NodeState.TERMINATING} == {NodeState.TERMINATED}


@pytest.mark.parametrize("state", NodeState)
def test_every_state_can_reach_terminated(state: NodeState) -> None:
    reached = {state}
    while grown := {edge.target for edge in EDGES if edge.source in reached} - reached:
        reached |= grown
    assert NodeState.TERMINATED in reached


@pytest.mark.parametrize("state", NodeState)
def test_every_state_can_be_reached_from_no_record(state: NodeState) -> None:
    reached: set[NodeState | None] = {None}
    while grown := {edge.target for edge in EDGES if edge.source in reached} - reached:
        reached |= grown
    assert state in reached


def test_live_states_are_those_that_can_be_condemned() -> None:
    assert set(LIVE) == {edge.source for edge in EDGES if edge.verb is Verb.CONDEMN}
    assert [state.value for state in LIVE] == _live()


def test_every_state_has_a_meaning() -> None:
    assert set(MEANING) == set(NodeState)
    assert all(MEANING.values())


def test_every_verb_has_an_edge() -> None:
    assert {edge.verb for edge in EDGES} == set(Verb)


def test_every_edge_says_who_calls_it_and_when() -> None:
    for edge in EDGES:
        assert edge.callers and all(edge.callers) and edge.when


def test_allowed_is_the_table_and_nothing_else() -> None:
    sources: list[NodeState | None] = [None, *NodeState]
    yes = {(v, s, t) for v in Verb for s in sources for t in NodeState if allowed(v, s, t)}
    assert yes == {(edge.verb, edge.source, edge.target) for edge in EDGES}


def test_the_page_on_the_lifecycle_is_the_generated_one() -> None:
    assert (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8") == reference.lifecycle()


def test_the_page_names_every_state_edge_and_arrow() -> None:
    page = reference.lifecycle().splitlines()
    for state in NodeState:
        assert f"| `{state}` | {MEANING[state]} |" in page
    for edge in EDGES:
        start = f"| {edge.verb} | {edge.source or '∅'} | {edge.target} | "
        assert sum(line.startswith(start) for line in page) == 1
        arrow = f"  {edge.source or '[*]'} --> {edge.target}: {edge.verb}"
        assert (arrow in page) is (edge.source is not edge.target)
