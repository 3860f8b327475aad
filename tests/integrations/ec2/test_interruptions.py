"""Spot launches keep away from what EC2 just took back, by type and zone, as long as something is left."""

from fakes.ec2 import FakeEc2
from muster.domain.template import UsageClass
from muster.integrations.ec2.interruptions import TYPES_MOST, spared
from muster.integrations.ec2.provider import Ec2Provider
from muster.testing.provider_contract import ids
from tests.integrations.ec2.region import Region, wanting

ZONES = ("a", "b")


def test_a_type_is_avoided_in_its_zone_alone() -> None:
    assert spared(("s1", "s2"), ZONES, ("m7", "c7"), frozenset({("m7", "a"), ("x1", "b")})) == {
        "s1": ("c7",),
        "s2": ("m7", "c7"),
    }


def test_a_zone_without_a_type_left_is_left_out_and_nothing_left_means_no_choice() -> None:
    assert spared(("s1", "s2"), ZONES, ("m7",), frozenset({("m7", "a")})) == {"s2": ("m7",)}
    assert spared(("s1", "s2"), ZONES, ("m7",), frozenset({("m7", "a"), ("m7", "b")})) == {}
    assert spared(("s1", "s2"), ZONES, ("m7",), frozenset()) == {}
    many = tuple(f"m{number}" for number in range(TYPES_MOST + 5))
    assert len(spared(("s1", "s2"), ZONES, many, frozenset({("m1", "a")}))["s2"]) == TYPES_MOST


async def test_the_next_spot_launch_avoids_what_was_taken_back(
    provider: Ec2Provider, region: Region, fake: FakeEc2
) -> None:
    first = await provider.launch(wanting(token="one", usage=UsageClass.SPOT, count=2))
    kinds = {machine.instance_type for machine in first.machines}
    (kind,) = kinds
    taken = fake.instances()[0]
    fake.take_back(taken.id)
    replica = region.provider()  # EC2 remembers for all of them
    later = await replica.launch(wanting(token="two", usage=UsageClass.SPOT, count=4))
    made = [each for each in fake.instances() if each.id in ids(later)]
    assert (kind, taken.zone) not in {(each.type, each.zone) for each in made}
    assert kind in {each.type for each in made}, "other zones still have it"
    demand = await replica.launch(wanting(token="three", count=1))
    assert demand.machines[0].instance_type == kind, "on-demand machines are not taken back"


async def test_a_repeat_says_what_the_first_call_said(provider: Ec2Provider, fake: FakeEc2) -> None:
    first = await provider.launch(wanting(token="one", usage=UsageClass.SPOT))
    fake.take_back(ids(first)[0])
    assert ids(await provider.launch(wanting(token="one", usage=UsageClass.SPOT))) == ids(first)


async def test_a_look_that_fails_fails_no_launch(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.fail("DescribeInstances", "UnauthorizedOperation", times=5)
    assert len((await provider.launch(wanting(token="one", usage=UsageClass.SPOT))).machines) == 1
