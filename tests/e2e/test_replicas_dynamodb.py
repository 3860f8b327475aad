"""Three servers on one table of DynamoDB, restarted one after the other under load."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.client import calls
from muster.wire.operations import Operation
from tests.e2e.fork_server import ForkServer
from tests.e2e.replicas import Replicas
from tests.e2e.site import until
from tests.e2e.test_replicas import Follower
from tests.stores import emulator


@pytest.fixture
def replicas(tmp_path: Path, fork_server: ForkServer) -> Iterator[Replicas]:
    replicas = Replicas(tmp_path, fork_server, emulator.address())
    try:
        yield replicas.start()
        replicas.verify()
    finally:
        replicas.close()


@pytest.mark.timeout(400)  # three restarts and what they wait for: 100 s on a busy machine
def test_a_rolling_restart_under_load_loses_no_request_that_was_acknowledged_and_no_event(
    replicas: Replicas,
) -> None:
    follower = Follower(replicas)
    stopping = threading.Event()
    done: list[Operation] = []

    def ended(operation: Operation, place: int) -> None:
        def look() -> Operation | None:
            found = replicas.ask(calls.operation(operation.operation_id), first=place)
            return found if found.ended else None

        done.append(until(look, f"the end of {operation.kind} {operation.operation_id}", 100.0))

    def calling(place: int) -> None:
        for number in itertools.count():
            request = replicas.sites[place].request(1, f"run-{place}-{number}")
            operation = replicas.ask(calls.provision(request), first=place)
            ended(operation, place)
            ended(replicas.ask(calls.release(operation_id=operation.operation_id), first=place), place)
            if stopping.is_set():
                return

    callers = [replicas.sites[0].soon(calling, place) for place in range(3)]
    for site in replicas.sites:
        enough = len(done) + 3
        until(lambda: len(done) >= enough, "some work to be done", 100.0)  # noqa: B023 — asked at once
        assert site.stop() == 0
        site.start()
    stopping.set()
    for caller in callers:
        caller.result(200.0)
    assert [operation.error for operation in done if operation.status != "succeeded"] == []
    feed = replicas.sites[0].feed()
    told = [event.id for event in feed]
    until(lambda: set(told) <= set(follower.ids), "every event in the stream of one server after another")
    follower.until(told[-1])
    assert len(follower.servers) > 1
    # Several logs have no order among each other while they are written; each entity has one.
    place = {each: number for number, each in reversed(list(enumerate(follower.ids)))}
    for entity_id in {event.entity_id for event in feed}:
        seen = [place[event.id] for event in feed if event.entity_id == entity_id]
        assert seen == sorted(seen), f"the events of {entity_id} were told in another order"
