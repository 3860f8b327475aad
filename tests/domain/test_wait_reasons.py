from typing import Any

import pytest

from muster.domain.operation import Kind, Operation, Status, Verdict
from muster.domain.progress import Part, Progress, Tone
from muster.domain.reasons import Reason
from muster.domain.wait_reasons import EXAMPLES, WORDS, WaitsFor, waiting, waits_for
from tests.domain.builders import NOW, REFILL, RELEASE, RUN, SMALLEST, operation


def progress(phase: str, *states: str) -> Progress:
    parts = tuple(Part(id=f"n{n}", name="n", state=state, tone=Tone.ACTIVE) for n, state in enumerate(states))
    return Progress(step=1, total_steps=5, phase=phase, label=phase, parts=parts)


def driven(**fields: Any) -> Operation:
    given: dict[str, Any] = {"lease_owner": "replica-a", "lease_until": NOW + 60, "status": Status.RUNNING}
    return operation(**(given | fields))


def reason(held: Operation, *paused: str | None) -> WaitsFor | None:
    return waits_for(held, paused=paused, now=NOW)


@pytest.mark.parametrize(
    ("phase", "states", "expected"),
    [
        ("selecting", (), WaitsFor.POOL),
        ("creating", (), WaitsFor.PROVIDER),
        ("booting", (), WaitsFor.BOOT),
        ("booting", ("attached", "starting"), WaitsFor.BOOT),
        ("booting", ("booting", "attaching"), WaitsFor.BOOT),
        ("booting", ("attaching", "attached"), WaitsFor.ATTACH),
        ("handing_over", (), WaitsFor.HAND_OVER),
        ("arm_create_or_update", (), WaitsFor.OTHER),
    ],
)
def test_a_provision_waits_for_what_its_step_says(
    phase: str, states: tuple[str, ...], expected: WaitsFor
) -> None:
    assert reason(driven(progress=progress(phase, *states))) is expected


@pytest.mark.parametrize("phase", ["releasing", "detaching"])
def test_a_release_waits_for_clean_nodes(phase: str) -> None:
    assert reason(driven(kind=Kind.RELEASE, request=RELEASE, progress=progress(phase))) is WaitsFor.RELEASE


def test_before_its_first_step_a_provision_looks_for_nodes() -> None:
    assert reason(driven(progress=None)) is WaitsFor.POOL
    assert reason(driven(kind=Kind.REFILL, request=REFILL, progress=None)) is WaitsFor.OTHER


@pytest.mark.parametrize(
    ("until", "expected"),
    [(NOW - SMALLEST, WaitsFor.DRIVER), (NOW, WaitsFor.DRIVER), (NOW + SMALLEST, WaitsFor.POOL)],
)
def test_an_operation_without_a_driver_waits_for_one(until: float, expected: WaitsFor) -> None:
    assert reason(driven(lease_until=until)) is expected
    assert reason(driven(lease_owner=None, lease_until=NOW + 60)) is WaitsFor.DRIVER


def test_a_queued_provision_waits_for_room() -> None:
    queued = driven(status=Status.QUEUED, queued_since=NOW - 5, progress=progress("selecting"))
    assert reason(queued) is WaitsFor.ROOM
    tried = driven(status=Status.RUNNING, queued_since=NOW - 5, progress=progress("creating"))
    assert reason(tried) is WaitsFor.PROVIDER, "it has its turn; the place is only kept"


@pytest.mark.parametrize("paused", ["web", None])
def test_a_pause_holds_back_what_has_not_begun_to_boot(paused: str | None) -> None:
    queued = driven(status=Status.QUEUED, queued_since=NOW - 5)
    for held in (queued, driven(), driven(progress=progress("creating"))):
        assert reason(held, paused) is WaitsFor.PAUSED
        assert reason(held, "ci") is not WaitsFor.PAUSED
    assert reason(driven(progress=progress("booting")), paused) is WaitsFor.BOOT


def test_what_failed_or_is_cancelled_is_being_rolled_back() -> None:
    verdict = Verdict(reason=Reason.CAPACITY, message="none")
    assert reason(driven(verdict=verdict)) is WaitsFor.UNDO
    assert reason(driven(cancel_requested_at=NOW)) is WaitsFor.UNDO


def test_a_run_is_counted_by_its_provision_and_what_ended_not_at_all() -> None:
    assert reason(driven(kind=Kind.RUN, request=RUN, progress=progress("selecting"))) is None
    assert reason(driven(status=Status.SUCCEEDED, ended_at=NOW)) is None


def test_groups_tell_how_many_since_when_and_which_the_one_with_the_oldest_first() -> None:
    many = [driven(id=f"op-{n}", created_at=NOW - n) for n in range(EXAMPLES + 2)]
    old = driven(
        id="op-old",
        created_at=NOW - 500,
        queued_since=NOW - 100,
        status=Status.QUEUED,
    )
    first, second = waiting([*many, old], paused=(), now=NOW)
    assert (first.reason, first.count, first.oldest_since) == (WaitsFor.ROOM, 1, NOW - 100)
    assert (second.reason, second.count, second.oldest_since) == (
        WaitsFor.POOL,
        len(many),
        NOW - EXAMPLES - 1,
    )
    assert second.operation_ids == tuple(f"op-{n}" for n in range(EXAMPLES + 1, 1, -1))
    assert waiting([], paused=(), now=NOW) == ()


def test_every_reason_has_words() -> None:
    assert set(WORDS) == set(WaitsFor)
    one, two = (
        waiting([driven(id=f"op-{n}") for n in range(count)], paused=(), now=NOW)[0] for count in (1, 2)
    )
    assert (one.text, two.text) == ("looks for warm nodes", "look for warm nodes")
