"""A server is killed and all its agents come back at once: bounded, spread, and no hand-over is lost."""

import pytest

from bench.reconnects import ATTEMPTS_MOST, weathered

NODES = 300
PROVISIONS = 12


@pytest.mark.slow
async def test_agents_that_come_back_at_once_are_spread_and_no_hand_over_is_lost() -> None:
    storm = await weathered(NODES, PROVISIONS)
    (pool,) = storm.counts["items"]
    assert len(set(storm.members)) == PROVISIONS, "each provision got a node of its own"
    assert (pool["running"], pool["idle"]) == (PROVISIONS, NODES - PROVISIONS), "no node was given up"
    assert storm.attempts <= ATTEMPTS_MOST, "no agent hammers at the new server"
