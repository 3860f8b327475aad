"""The server dies in the moment after each of its steps, is started again, and everything comes to its end.

`WARM_AND_COLD`, `BACK` and `RUN` are all the steps there are: the last test holds them to it.
"""

from collections.abc import Sequence

import pytest

from muster.client import calls
from muster.domain.command import Execution
from muster.wire.events import Event
from muster.wire.operations import Operation
from tests.e2e.site import Site, until

Boundary = tuple[str, int]
"""What was committed last, and for which time."""

WARM_AND_COLD: Sequence[Boundary] = (
    ("provision:submitted", 1),
    ("node:claim", 1),
    ("launch:planned", 1),
    ("launch:calling", 1),
    ("provider:granted", 1),
    ("provider:locked", 1),
    ("provider:spawned", 1),
    ("node:adopt", 1),
    ("launch:settled", 1),
    ("provision:progressed", 1),
    ("node:joined", 1),
    ("node:booted", 1),
    ("node:attached", 1),
    ("node:attached", 2),
    ("provision:committed", 1),
    ("node:hand_over", 1),
    ("node:hand_over", 2),
    ("provision:ended", 1),
)
"""A provision of two nodes, one of which is in the pool."""
BACK: Sequence[Boundary] = (
    ("release:submitted", 1),
    ("node:release", 1),
    ("node:release", 2),
    ("node:clean", 1),
    ("node:clean", 2),
    ("release:ended", 1),
)
RUN: Sequence[Boundary] = (
    ("run:submitted", 1),
    ("provision:submitted", 1),
    ("provision:committed", 1),
    ("provision:ended", 1),
    ("node:commanded", 1),
    ("command:pending", 1),
    ("command:pending", 2),
    ("command:running", 1),
    ("command:running", 2),
    ("run:progressed", 1),
    ("command:exited", 1),
    ("command:exited", 2),
    ("release:submitted", 1),
    ("node:release", 1),
    ("node:clean", 1),
    ("release:ended", 1),
    ("run:ended", 1),
)
FAILING: Sequence[Boundary] = (
    ("node:fail", 1),
    ("provision:failing", 1),
    ("node:condemn", 1),
    ("provision:ended", 1),
    ("node:confirm_gone", 1),
)
CANCELLED: Sequence[Boundary] = (("run:cancel_requested", 1), ("release:submitted", 1), ("run:ended", 1))
REFILL: Sequence[Boundary] = (
    ("refill:submitted", 1),
    ("launch:settled", 1),
    ("node:pool_in", 1),
    ("refill:ended", 1),
)
OTHERWISE = ("release:progressed", "operation:taken_over", "health:ready")
"""Written only if something takes its time, or by a duty that no operation waits for."""


def _halves(boundaries: Sequence[Boundary]) -> tuple[Sequence[Boundary], Sequence[Boundary]]:
    """So that none takes too long, and two machines' halves can be done side by side."""
    return boundaries[::2], boundaries[1::2]


def _one_warm(site: Site) -> None:
    """Whatever was before: one idle node, and no other."""
    for node in site.nodes("idle")[1:]:
        site.ask(calls.terminate(node.id))
        site.node_in("terminated", node.id)
    if not site.nodes("idle"):
        site.release(site.provision(1, run="warming"))
    assert len(site.nodes("idle")) == 1


def _through_death(site: Site, boundary: Boundary, ask: calls.Call[Operation]) -> Operation:
    """Ask, let the server die at the boundary, start it again, and wait for the end."""
    site.doom(*boundary)
    asking = site.soon(site.ask, ask)
    assert site.gone(30.0) == -9
    site.start()
    return site.ended(asking.result(30.0))


@pytest.mark.parametrize("boundaries", _halves(WARM_AND_COLD), ids=["odd", "even"])
def test_a_provision_survives_a_death_after_each_of_its_steps(
    site: Site, boundaries: Sequence[Boundary]
) -> None:
    site.template(max_nodes=2)
    for boundary in boundaries:
        _one_warm(site)
        call = calls.provision(site.request(2, f"{boundary}"))
        end = _through_death(site, boundary, call)
        assert end.status == "succeeded", f"{boundary}: {end.error}"
        assert {node.state for node in site.members(end)} == {"running"}
        assert site.release(end).status == "succeeded"
        assert site.ask(call).operation_id == end.operation_id


def test_a_machine_that_was_marked_and_never_started_fails_its_provision_and_is_not_leaked(
    site: Site,
) -> None:
    end = _through_death(site, ("provider:marked", 1), calls.provision(site.request(1, "unlucky")))
    assert end.status in ("succeeded", "failed")
    assert end.error is None or end.error.message
    site.succeeded(site.provision(1, run="next"))


def test_a_release_survives_a_death_after_each_of_its_steps(site: Site) -> None:
    site.template(max_nodes=2)
    machines: set[str] = set()
    for boundary in BACK:
        held = site.succeeded(site.provision(2, run=f"{boundary}"))
        machines |= {node.machine_id for node in site.members(held)}
        end = _through_death(site, boundary, calls.release(operation_id=held.operation_id))
        assert end.status == "succeeded", f"{boundary}: {end.error}"
        assert {node.state for node in site.members(held)} == {"idle"}
    assert len(machines) == 2


@pytest.mark.parametrize("boundaries", _halves(RUN), ids=["odd", "even"])
def test_a_run_survives_a_death_after_each_of_its_steps(site: Site, boundaries: Sequence[Boundary]) -> None:
    site.template(max_nodes=2)
    site.release(site.provision(2, run="warming"))
    for boundary in boundaries:
        execution = Execution(
            argv=(
                "sh",
                "-c",
                'sleep 0.4; echo "said once by $MUSTER_INDEX"',
            )
        )
        call = calls.run(site.request(2, f"{boundary}"), execution)
        end = _through_death(site, boundary, call)
        assert (end.status, end.result) == ("succeeded", "exit 0"), f"{boundary}: {end.error}"
        said = sorted(site.output(command) for command in site.commands(end))
        assert said == [b"said once by 0\n", b"said once by 1\n"]
        assert len(site.nodes("idle")) == 2


def test_a_failing_provision_is_rolled_back_across_a_death_after_each_step(site: Site) -> None:
    site.template("broken", boot_script="exit 3", rescue_window=0.0, max_nodes=2)
    for boundary in FAILING:
        call = calls.provision(site.request(2, f"{boundary}", template="broken", queue_timeout=60.0))
        end = _through_death(site, boundary, call)
        assert end.error is not None and end.error.reason == "boot_script_failed", f"{boundary}: {end}"


def test_a_cancelled_run_ends_across_a_death_after_each_step(site: Site) -> None:
    for boundary in CANCELLED:
        run = site.run("sleep", "1000", run=f"{boundary}")
        site.commands_in("running", run)
        site.doom(*boundary)
        asking = site.soon(site.ask, calls.cancel(run.operation_id))
        assert site.gone(30.0) == -9
        site.start()
        asking.result(30.0)
        assert site.ended(run).status == "cancelled", boundary
        (member,) = site.child(run).members
        node = site.node(member.node_id)
        assert node.state == "idle", f"{boundary}: {node}"
        assert site.nodes("claimed", "running", "releasing", "idle") == (node,), boundary


def test_a_refill_goes_on_across_a_death_after_each_step(site: Site) -> None:
    def warm() -> bool:
        return len(site.nodes("idle", template="warm")) == 1

    site.doom(*REFILL[0])
    site.template("warm", min_idle=1, max_nodes=2)
    for boundary in REFILL[1:]:
        assert site.gone(30.0) == -9
        site.start()
        until(warm, "a warm node")
        until(lambda: not site.unfinished(), "the refill to end")
        site.doom(*boundary)
        (node,) = site.nodes("idle", template="warm")
        site.soon(site.ask, calls.terminate(node.id))
    assert site.gone(30.0) == -9
    site.start()
    until(warm, "a warm node")


def test_there_is_no_step_at_which_the_server_was_not_killed(site: Site) -> None:
    site.template(max_nodes=2)
    _one_warm(site)
    before = len(site.feed())
    held = site.succeeded(site.provision(2, run="plain"))
    site.release(held)
    site.succeeded(site.run("sh", "-c", "sleep 0.4; echo hello", count=2))
    kinds = {each.operation_id: each.kind for each in site.ask(calls.operations(limit=500)).items}

    def label(event: Event) -> str:
        return f"{kinds[event.entity_id] if event.entity == 'operation' else event.entity}:{event.name}"

    taken = {label(event) for event in site.feed()[before:]}
    killed = {name for name, _ in (*WARM_AND_COLD, *BACK, *RUN)}
    assert taken - killed - set(OTHERWISE) == set()
    assert {name for name in killed if not name.startswith("provider:")} - taken == set()
