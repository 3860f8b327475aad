"""What the simulated cloud does, and what it does to its callers."""

from dataclasses import replace
from random import Random

import pytest

from muster.domain.errors import Refused, Throttled, TokenSpent, Uncertain
from muster.domain.ids import LaunchId
from muster.domain.reasons import Reason
from muster.domain.template import RESOURCE_CLASSES, TemplateSpec, UsageClass
from muster.ports.provider import LaunchRequest, MachineState
from muster_simulation.cloud import CloudFaults, SimulatedCloud, SimulatedProvider, SimulatedVerifier
from muster_simulation.cloud.cloud import CATALOGUE, candidates
from muster_simulation.cloud.provider import proof_of
from muster_simulation.life import Life
from muster_simulation.loop import VirtualClock, run

HONEST = CloudFaults()


def a_cloud(faults: CloudFaults = HONEST, *, capacity: int | None = None) -> SimulatedCloud:
    return SimulatedCloud(clock=VirtualClock(), random=Random(1), faults=faults, capacity=capacity)


def a_provider(cloud: SimulatedCloud, installation: str = "inst-1") -> SimulatedProvider:
    return SimulatedProvider(cloud, clock=VirtualClock(), installation_id=installation, page=2)


def a_request(count: int = 2, token: str = "inst-1/op-1.1") -> LaunchRequest:
    return LaunchRequest(
        token=token,
        launch_id=LaunchId("op-1.1"),
        installation_id="inst-1",
        template=TemplateSpec(name="ci", provider="simulated"),
        revision=1,
        resource_class=RESOURCE_CLASSES["large"],
        usage_class=UsageClass.ON_DEMAND,
        instance_types=("c*",),
        count=count,
    )


def test_a_launch_makes_what_was_asked_for() -> None:
    async def main() -> None:
        provider = a_provider(a_cloud())
        answer = await provider.launch(a_request())
        assert [machine.instance_type for machine in answer.machines] == ["c7.large"] * 2
        assert answer.reason is None
        assert [machine.id for machine in await provider.find("inst-1/op-1.1")] == [
            machine.id for machine in answer.machines
        ]

    run(main())


def test_the_same_token_makes_nothing_new_and_gives_the_same_answer() -> None:
    async def main() -> None:
        cloud = a_cloud()
        first = await a_provider(cloud).launch(a_request())
        assert await a_provider(cloud).launch(a_request()) == first
        assert len(cloud.ledger) == 2

    run(main())


def test_a_token_with_other_parameters_is_spent() -> None:
    async def main() -> None:
        provider = a_provider(a_cloud())
        await provider.launch(a_request())
        with pytest.raises(TokenSpent):
            await provider.launch(a_request(count=3))

    run(main())


def test_short_of_capacity_it_gives_what_it_has_and_says_why() -> None:
    async def main() -> None:
        answer = await a_provider(a_cloud(capacity=1)).launch(a_request())
        assert (len(answer.machines), answer.reason) == (1, Reason.CAPACITY)

    run(main())


def test_nothing_fits_a_pattern_that_nothing_matches() -> None:
    async def main() -> None:
        with pytest.raises(Refused):
            await a_provider(a_cloud()).launch(replace(a_request(), instance_types=("x*",)))

    run(main())


def test_a_request_happens_although_its_caller_died() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(latency=(1.0, 2.0)))
        caller = Life("caller")
        task = caller.spawn(a_provider(cloud).launch(a_request()))
        await VirtualClock().sleep(0.5)
        caller.kill()
        await VirtualClock().sleep(10.0)
        assert len(cloud.ledger.live()) == 2
        assert not task.done()

    run(main())


def test_a_late_request_happens_after_the_caller_gave_up() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(late_request=1.0, late_by=(60.0, 61.0)))
        with pytest.raises(Uncertain):
            await a_provider(cloud).launch(a_request())
        assert len(cloud.ledger) == 0
        await VirtualClock().sleep(40.0)
        assert len(cloud.ledger) == 2

    run(main())


@pytest.mark.parametrize(
    ("faults", "made"), [(CloudFaults(lost_request=1.0), 0), (CloudFaults(lost_reply=1.0), 2)]
)
def test_without_an_answer_the_caller_is_uncertain(faults: CloudFaults, made: int) -> None:
    async def main() -> None:
        cloud = a_cloud(faults)
        with pytest.raises(Uncertain):
            await a_provider(cloud).launch(a_request())
        assert VirtualClock(epoch=0.0).now() == cloud.call_timeout
        assert len(cloud.ledger) == made

    run(main())


def test_a_request_that_arrives_twice_is_carried_out_once() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(duplicate=1.0))
        await a_provider(cloud).launch(a_request())
        await VirtualClock().sleep(60.0)
        assert len(cloud.ledger) == 2

    run(main())


def test_throttled_made_nothing() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(throttled=1.0))
        with pytest.raises(Throttled):
            await a_provider(cloud).launch(a_request())
        assert len(cloud.ledger) == 0

    run(main())


def test_a_machine_is_invisible_until_its_lag_has_passed_and_cannot_be_terminated() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(lag=(100.0, 100.0)))
        provider = a_provider(cloud)
        machine = (await provider.launch(a_request(count=1))).machines[0]
        assert await provider.find("inst-1/op-1.1") == []
        assert await provider.describe([machine.id]) == {}
        assert [each async for each in provider.list()] == []
        await provider.terminate([machine.id])
        await VirtualClock().sleep(101.0)
        assert (await provider.describe([machine.id]))[machine.id].state is MachineState.RUNNING
        await provider.terminate([machine.id])
        assert cloud.ledger.live() == ()

    run(main())


def test_however_late_a_machine_is_visible_once_timeout_and_window_have_passed() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(late_request=1.0, late_by=(150.0, 150.0), lag=(299.0, 299.0)))
        with pytest.raises(Uncertain):
            await a_provider(cloud).launch(a_request())
        await VirtualClock().sleep(cloud.visibility_window)
        assert len(await cloud_find(cloud)) == 2

    async def cloud_find(cloud: SimulatedCloud) -> list[str]:
        return [machine.id for machine in cloud.find("inst-1/op-1.1")]

    run(main())


def test_a_machine_takes_its_time_to_stop_and_may_have_to_be_asked_again() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(stop=(50.0, 50.0), deaf=1.0))
        provider = a_provider(cloud)
        machine = (await provider.launch(a_request(count=1))).machines[0]
        await provider.terminate([machine.id])
        cloud.faults = replace(cloud.faults, deaf=0.0)
        assert (await provider.describe([machine.id]))[machine.id].state is MachineState.RUNNING
        await provider.terminate([machine.id])
        assert (await provider.describe([machine.id]))[machine.id].state is MachineState.STOPPING
        await VirtualClock().sleep(51.0)
        assert (await provider.describe([machine.id]))[machine.id].state is MachineState.GONE
        assert [each.gone for each in cloud.ledger] == [True]

    run(main())


def test_a_listing_shows_this_installation_only_page_by_page() -> None:
    async def main() -> None:
        cloud = a_cloud()
        ours = await a_provider(cloud).launch(a_request(count=5))
        await a_provider(cloud).launch(replace(a_request(token="other/1"), installation_id="inst-2"))
        listed = [machine.id async for machine in a_provider(cloud).list()]
        assert listed == [machine.id for machine in ours.machines]

    run(main())


def test_machines_die_and_spot_machines_are_interrupted() -> None:
    async def main() -> None:
        cloud = a_cloud(CloudFaults(deaths=2.0, interruptions=50.0))
        provider = a_provider(cloud)
        await provider.launch(a_request(count=20))
        await provider.launch(replace(a_request(count=20, token="s"), usage_class=UsageClass.SPOT))
        await VirtualClock().sleep(3600.0)
        assert cloud.injected["died"] > 5
        assert cloud.injected["interrupted"] > 5
        assert len(cloud.ledger.live()) < 20

    run(main())


def test_a_proof_names_the_machine_that_the_ledger_knows() -> None:
    async def main() -> None:
        cloud = a_cloud()
        machine = (await a_provider(cloud).launch(a_request(count=1))).machines[0]
        identity = await SimulatedVerifier(cloud).verify(proof_of(machine.id))
        assert (identity.machine_id, identity.token) == (machine.id, "inst-1/op-1.1")

    run(main())


def test_every_class_has_types_in_every_family() -> None:
    assert len({item.name for item in CATALOGUE}) == len(CATALOGUE)
    for size in RESOURCE_CLASSES.values():
        assert len(candidates(size, ("*",))) == 3
        assert [item.name for item in candidates(size, ("M*",))] == [f"m7.{size.name}"]
