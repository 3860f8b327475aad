from itertools import pairwise

import pytest

from muster.domain.errors import Refused, StoreUnavailable, Throttled
from muster.domain.launch import THROTTLED_MOST, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.operation import Operation, Status
from muster.domain.reasons import Reason
from muster.domain.template import ResourceClass, UsageClass
from tests.harness import (
    Harness,
    gives,
    hangs,
    loses_the_reply,
    loses_the_request,
    refuses,
    spends_the_token,
    with_harness,
)

SPOT_FIRST = (UsageClass.SPOT, UsageClass.ON_DEMAND)


def reason_of(operation: Operation) -> Reason:
    assert operation.status is Status.FAILED
    assert operation.verdict is not None
    return operation.verdict.reason


@with_harness
async def test_a_partial_answer_gives_every_machine_back(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(gives(2, reason=None))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(3))

    assert reason_of(operation) is Reason.PARTIAL_LAUNCH
    assert len(harness.cloud.launches) == 1
    await harness.nothing_is_left()
    assert {node.reason for node in await harness.nodes()} == {Reason.PARTIAL_LAUNCH}


@with_harness
async def test_no_machine_at_all_is_a_lack_of_capacity(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(gives(0, reason=None))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(3))

    assert reason_of(operation) is Reason.CAPACITY
    await harness.nothing_is_left()


@with_harness
async def test_spot_without_capacity_falls_back_to_on_demand(harness: Harness) -> None:
    await harness.template(usage=SPOT_FIRST)
    harness.cloud.script(gives(1))
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert [request.usage_class for _, request in harness.cloud.launches] == list(SPOT_FIRST)
    running = await harness.nodes(NodeState.RUNNING)
    assert {node.usage_class for node in running} == {UsageClass.ON_DEMAND}
    assert len(operation.members) == 2
    await harness.count(1, NodeState.TERMINATED)
    assert len(harness.cloud.live()) == 2


@with_harness
async def test_when_the_fallback_has_no_capacity_either_the_provision_fails(harness: Harness) -> None:
    await harness.template(usage=SPOT_FIRST)
    harness.cloud.script(gives(0), gives(0))
    replica = await harness.replica()

    assert reason_of(await harness.ended(await replica.provision(2))) is Reason.CAPACITY
    assert len(harness.cloud.launches) == 2


@with_harness
async def test_a_refusal_for_quota_is_not_repeated(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(refuses(Refused("32 of 32 processors in use", Reason.QUOTA)))
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(2))

    assert reason_of(operation) is Reason.QUOTA
    assert operation.verdict is not None
    assert "32 of 32" in operation.verdict.message
    assert len(harness.cloud.launches) == 1
    assert await harness.used() == 0


@with_harness
async def test_a_refill_without_spot_machines_takes_others(harness: Harness) -> None:
    harness.cloud.script(refuses(Refused("32 of 32 spot processors in use", Reason.QUOTA)))
    await harness.replica()

    await harness.template(usage=SPOT_FIRST, min_idle=2)

    await harness.count(2, NodeState.IDLE)
    assert [asked.usage_class for _, asked in harness.cloud.launches] == list(SPOT_FIRST)


@with_harness
async def test_a_throttled_call_is_repeated_identically_after_the_time_it_was_told(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(refuses(Throttled("slow down", 17.0)), refuses(Throttled("slow down", 40.0)))
    replica = await harness.replica()

    await harness.succeeded(await replica.provision(2))

    (first, asked), (second, again), (third, _) = harness.cloud.launches
    assert asked == again
    assert 17.0 <= second - first <= 17.0 * 1.25
    assert 40.0 <= third - second <= 40.0 * 1.25
    assert len(harness.cloud.boxes) == 2


THROTTLED = gives(0, reason=Reason.THROTTLED)


@with_harness
async def test_a_throttled_answer_is_followed_by_another_launch_of_the_same_class_later_each_time(
    harness: Harness,
) -> None:
    await harness.template(usage=SPOT_FIRST)
    harness.cloud.script(THROTTLED, gives(1, reason=Reason.THROTTLED), THROTTLED)
    replica = await harness.replica()

    await harness.succeeded(await replica.provision(2))

    asked = harness.cloud.launches
    assert [request.usage_class for _, request in asked] == [UsageClass.SPOT] * 4
    assert len({request.token for _, request in asked}) == 4, "an answer is final for its token"
    times = [at for at, _ in asked]
    for number, (before, after) in enumerate(pairwise(times)):
        assert 2.0 * 2**number <= after - before <= 3.0 * 2**number
    await harness.count(1, NodeState.TERMINATED)
    assert len(harness.cloud.live()) == 2 and await harness.used() == 2


@with_harness
async def test_a_provider_that_throttles_for_too_long_is_named_when_the_time_is_over(
    harness: Harness,
) -> None:
    await harness.template()
    harness.cloud.script(*[THROTTLED] * 20)
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(2, timeout=60.0))

    assert reason_of(operation) is Reason.DEADLINE_EXCEEDED
    assert operation.verdict is not None
    assert "again: it throttles requests" in operation.verdict.message
    assert len(harness.cloud.launches) < 12
    await harness.nothing_is_left()


@with_harness
async def test_who_is_throttled_again_and_again_gives_up_long_before_a_patient_deadline(
    harness: Harness,
) -> None:
    await harness.template(usage=SPOT_FIRST)
    harness.cloud.script(*[THROTTLED] * 50)
    replica = await harness.replica()

    operation = await harness.ended(await replica.provision(2, queue_timeout=80_000.0))

    assert reason_of(operation) is Reason.THROTTLED
    assert len(harness.cloud.launches) == THROTTLED_MOST
    await harness.nothing_is_left()


@with_harness
async def test_a_refill_waits_while_its_provider_throttles(harness: Harness) -> None:
    harness.cloud.script(THROTTLED, THROTTLED)
    await harness.replica()

    await harness.template(usage=SPOT_FIRST, min_idle=2)

    await harness.count(2, NodeState.IDLE)
    (first, _), (second, _), (third, asked) = harness.cloud.launches
    assert 2.0 <= second - first <= 3.0 and 4.0 <= third - second <= 6.0
    assert asked.usage_class is UsageClass.SPOT and len(harness.cloud.live()) == 2


@pytest.mark.parametrize("lost", [loses_the_reply(), loses_the_request(), hangs()])
@with_harness
async def test_a_call_without_an_answer_is_repeated_and_makes_no_machine_twice(
    harness: Harness, lost: object
) -> None:
    await harness.template()
    harness.cloud.script(lost, lost)  # type: ignore[arg-type]
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    requests = [request for _, request in harness.cloud.launches]
    assert requests == [requests[0]] * 3
    assert len(harness.cloud.boxes) == 2
    (launch,) = await harness.launches(operation.id)
    assert (launch.state, launch.calls, launch.adopted) == (LaunchState.SETTLED, 3, 2)


@with_harness
async def test_a_call_that_hangs_is_given_up_at_its_timeout(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(hangs())
    replica = await harness.replica()

    await harness.succeeded(await replica.provision(1))

    (first, _), (second, _) = harness.cloud.launches
    assert 30.0 <= second - first <= 34.0


@with_harness
async def test_a_spent_token_means_that_it_happened_and_the_machines_are_found(harness: Harness) -> None:
    await harness.template()
    harness.cloud.lag = 60.0
    harness.cloud.script(spends_the_token())
    replica = await harness.replica()
    began = harness.now

    operation = await harness.succeeded(await replica.provision(2))

    assert len(harness.cloud.launches) == 1
    assert len(harness.cloud.boxes) == 2
    assert len(operation.members) == 2
    assert 60.0 <= harness.now - began <= 70.0


@with_harness
async def test_finding_too_few_proves_nothing_before_the_window_has_passed(harness: Harness) -> None:
    await harness.template()
    harness.cloud.script(spends_the_token(give=1))
    replica = await harness.replica()
    began = harness.now

    operation = await replica.provision(2)
    window = harness.cloud.call_timeout + harness.cloud.visibility_window
    await harness.pass_time(window - 5.0)
    (launch,) = await harness.launches(operation.id)
    assert launch.state is LaunchState.CALLING
    assert await harness.used() == 2
    operation = await harness.ended(operation)

    assert reason_of(operation) is Reason.PARTIAL_LAUNCH
    assert harness.now - began >= window
    (launch,) = await harness.launches(operation.id)
    assert launch.closed_at is not None
    assert operation.ended_at == pytest.approx(launch.closed_at, abs=0.5), "it goes on as soon as it knows"
    await harness.nothing_is_left()


@with_harness
async def test_a_fallback_after_a_spent_token_is_a_call_of_its_own(harness: Harness) -> None:
    await harness.template(usage=SPOT_FIRST)
    harness.cloud.script(spends_the_token(give=1))
    replica = await harness.replica()

    operation = await harness.succeeded(await replica.provision(2))

    assert [request.usage_class for _, request in harness.cloud.launches] == list(SPOT_FIRST)
    assert len(operation.members) == 2


@with_harness
async def test_no_call_is_made_that_could_outlive_the_lease(harness: Harness) -> None:
    await harness.template()
    replica = await harness.replica()
    replica.interceptor.deny["renew"] = StoreUnavailable("the store is away")

    operation = await replica.provision(1)
    await harness.pass_time(2 * harness.settings.lease)
    assert harness.cloud.launches == [], "its lease could not be prolonged beyond the call's timeout"

    replica.interceptor.deny.clear()
    await harness.succeeded(operation)
    assert len(harness.cloud.launches) == 1


@with_harness
async def test_a_launch_asks_for_the_size_that_its_template_gives_the_class(harness: Harness) -> None:
    own = ResourceClass(name="small", cpu=3, memory_mib=3000)
    await harness.template(resource_class="small", classes=(own,))
    replica = await harness.replica()

    await harness.ended(await replica.provision(1))

    assert [asked.resource_class for _, asked in harness.cloud.launches] == [own]
