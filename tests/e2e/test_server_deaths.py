"""Only the server dies, at random moments under load: then no operation fails (storms also hurt agents)."""

import os
import threading
from random import Random

import pytest

from muster.client import calls
from muster.domain.command import Execution
from muster.wire.operations import Operation
from tests.e2e.site import Site

FEW, MANY = 4, 100
"""Kills. Every start of a server takes its second."""
SEED = int(os.environ.get("MUSTER_E2E_SEED", "1"))
CALLERS = 4


class Caller:
    """Takes nodes and gives them back, or runs something on them, again and again."""

    def __init__(self, site: Site, number: int, over: threading.Event) -> None:
        self._site = site
        self._name = f"caller-{number}"
        self._chance = Random(SEED * 1000 + number)
        self._over = over
        self.ends: list[Operation] = []

    def live(self) -> list[Operation]:
        turn = 0
        while not self._over.is_set():
            turn += 1
            self._once(f"{self._name}-{turn}")
        return self.ends

    def _once(self, run: str) -> None:
        site, count = self._site, self._chance.choice((1, 1, 2, 3))
        request = site.request(count, run, queue_timeout=300.0)
        if self._chance.random() < 0.5:
            call = calls.run(
                request,
                Execution(
                    argv=(
                        "sh",
                        "-c",
                        "sleep 0.2; echo hello",
                    )
                ),
                key=run,
            )
            end = site.ended(site.ask(call))
            assert {site.output(each) for each in site.commands(end)} <= {b"hello\n"}
        else:
            held = site.ended(site.ask(calls.provision(request, key=run)))
            self.ends.append(held)
            end = site.ended(site.ask(calls.release(operation_id=held.operation_id, key=f"{run}-back")))
        self.ends.append(end)


@pytest.mark.timeout(120 + 10 * MANY)
@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
def test_deaths_at_random_moments_under_load_lose_nothing_and_leave_nothing(site: Site, kills: int) -> None:
    site.template(max_nodes=5)
    site.release(site.provision(5, run="warming"))
    chance = Random(SEED)
    over = threading.Event()
    callers = [Caller(site, number, over) for number in range(CALLERS)]
    living = [site.soon(caller.live) for caller in callers]
    for _ in range(kills):
        # A moment of our own choosing would not be a random one: this is the only wait for mere time.
        assert not over.wait(chance.uniform(0.0, 3.0))
        site.kill()
        site.start()
    over.set()
    ends = [end for each in living for end in each.result(90.0)]
    failed = [f"{end.kind} {end.status}: {end.error}" for end in ends if end.status != "succeeded"]
    assert failed == []
    assert len(ends) >= CALLERS
