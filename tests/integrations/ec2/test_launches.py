"""Launches against an EC2 that fails in all the ways that real ones do."""

from typing import Any

import pytest

from fakes.ec2 import FakeEc2
from muster.domain.errors import Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from muster.integrations.ec2.provider import Ec2Provider
from muster.integrations.ec2.tables import Architecture
from muster.testing.provider_contract import ids, listed
from tests.integrations.ec2.region import SUBNETS, Region, spec, template, wanting

CREATE = "CreateFleet"


async def test_a_lost_reply_is_uncertain_and_the_repeat_finds_what_was_made(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.lose(CREATE)
    with pytest.raises(Uncertain):
        await provider.launch(wanting(count=3))
    assert len(fake.instances()) == 3
    answer = await provider.launch(wanting(count=3))
    assert ids(answer) == [each.id for each in fake.instances()]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"size": "small"}, "c7i.large"),
        ({"size": "large"}, "c7i.large"),
        ({"size": "large", "patterns": ("m5.large",)}, "m5.large"),
        ({"size": "large", "patterns": ("M5.*",)}, "m5.large"),
        ({"size": "large", "patterns": ("m*",)}, "m7i.large"),
        ({"size": "large", "patterns": ("t3.medium",)}, "t3.medium"),
    ],
)
async def test_a_class_gets_the_type_that_fits_best(
    provider: Ec2Provider, more: dict[str, Any], kind: str
) -> None:
    (machine,) = (await provider.launch(wanting(**more))).machines
    assert machine.instance_type == kind


async def test_a_launch_that_no_type_fits_is_refused_before_a_fleet_is_asked_for(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    with pytest.raises(Refused, match=r"among x9\.\*; name other instance_types"):
        await provider.launch(wanting(patterns=("x9.*",)))
    assert fake.counted(CREATE) == 0


async def test_a_throttled_launch_made_nothing_and_says_when_to_come_again(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.throttle(CREATE)
    with pytest.raises(Throttled, match="RequestLimitExceeded") as caught:
        await provider.launch(wanting())
    assert caught.value.retry_after > 0
    assert fake.instances() == []


async def test_a_failing_ec2_is_uncertain(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.fail(CREATE, "InternalError", status=500)
    with pytest.raises(Uncertain, match="InternalError"):
        await provider.launch(wanting())


async def test_an_ec2_that_can_not_be_reached_is_uncertain(region: Region) -> None:
    provider = region.provider(endpoint_url="http://127.0.0.1:1")
    with pytest.raises(Uncertain):
        await provider.launch(wanting())
    with pytest.raises(Uncertain):
        await listed(provider)


async def test_part_of_a_fleet_comes_with_the_reason_in_aws_own_words(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.capacity = 2
    answer = await provider.launch(wanting(count=3))
    assert (len(answer.machines), answer.reason) == (2, Reason.CAPACITY)
    assert answer.message.startswith("InsufficientInstanceCapacity: ")


async def test_a_fleet_whose_pools_were_throttled_is_final_for_its_token_and_another_is_tried(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.throttled_fleets = 1
    answer = await provider.launch(wanting("t1"))
    assert (answer.machines, answer.reason) == ((), Reason.THROTTLED)
    assert answer.message == "RequestLimitExceeded: Request limit exceeded."
    assert (await provider.launch(wanting("t1"))).reason is Reason.THROTTLED
    assert len((await provider.launch(wanting("t2"))).machines) == 1


async def test_spot_has_a_capacity_of_its_own(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.spot_capacity = 0
    none = await provider.launch(wanting("t1", usage=UsageClass.SPOT))
    assert (none.machines, none.reason) == ((), Reason.CAPACITY)
    (machine,) = (await provider.launch(wanting("t2"))).machines
    assert machine.usage_class is UsageClass.ON_DEMAND


async def test_machines_are_spread_over_the_zones(provider: Ec2Provider, fake: FakeEc2) -> None:
    await provider.launch(wanting(count=4))
    assert sorted(each.subnet for each in fake.instances()) == sorted(SUBNETS * 2)


async def test_types_are_those_that_the_patterns_allow(provider: Ec2Provider) -> None:
    answer = await provider.launch(wanting(patterns=("m*", "r*")))
    assert answer.machines[0].instance_type == "m7i.large"


@pytest.mark.parametrize("usage", UsageClass)
async def test_types_of_a_previous_generation_are_not_taken_however_cheap(
    provider: Ec2Provider, usage: UsageClass
) -> None:
    arm = template(image="ami-00000000000000002", architecture=Architecture.ARM64)
    for number, wanted in enumerate((template(), arm)):
        answer = await provider.launch(wanting(f"t{number}", template=wanted, patterns=("*",), usage=usage))
        assert answer.machines[0].instance_type in ("c7i.large", "c7g.large")


async def test_bare_metal_is_not_taken_even_where_nothing_else_fits(provider: Ec2Provider) -> None:
    arm = template(image="ami-00000000000000002", architecture=Architecture.ARM64)
    with pytest.raises(Refused, match="no instance type of this region has 64 to 256 processors"):
        await provider.launch(wanting(size="16xlarge", template=arm))


async def test_a_machine_with_one_processor_is_taken_where_there_is_one(provider: Ec2Provider) -> None:
    arm = template(image="ami-00000000000000002", architecture=Architecture.ARM64)
    answer = await provider.launch(wanting("t2", size="small", template=arm))
    assert answer.machines[0].instance_type == "c7g.medium"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"image": "ami-0000000000000dead"}, "InvalidAMIID.NotFound.*ami-0000000000000dead"),
        ({"subnets": ("subnet-0000000000000dead",)}, "InvalidSubnetID.NotFound.*subnet-0000000000000dead"),
        ({"instance_profile": "nobody"}, "Invalid IAM Instance Profile name"),
        ({"security_groups": ("sg-0000000000000dead",)}, "InvalidGroup.NotFound"),
        ({"architecture": Architecture.ARM64}, "is for x86_64, and the template for arm64"),
        (
            {"subnets": (SUBNETS[1], "subnet-000000000000000b2")},
            "subnet-0000000000000000b and subnet-000000000000000b2 are both in eu-west-1b",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_what_ec2_does_not_have_is_refused_by_name_and_nothing_is_launched(
    provider: Ec2Provider, fake: FakeEc2, wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused, match=why) as caught:
        await provider.launch(wanting(template=template(**wrong)))
    assert caught.value.reason is Reason.PROVIDER_REFUSED
    assert fake.instances(there=False) == []


async def test_without_credentials_ec2_is_not_even_asked(
    region: Region, fake: FakeEc2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setattr("muster.integrations.ec2.api._session", region.fresh_session)
    with pytest.raises(Refused, match="credentials"):
        await region.provider().launch(wanting())
    assert fake.calls == []


async def test_what_credentials_may_not_do_is_refused(provider: Ec2Provider, fake: FakeEc2) -> None:
    fake.faults.denied = frozenset({CREATE})
    with pytest.raises(Refused, match="UnauthorizedOperation"):
        await provider.launch(wanting())


# --- launch templates -------------------------------------------------------------------------------------


def versions(fake: FakeEc2) -> list[int]:
    return [len(each) for each in fake.cloud.templates.values()]


async def test_the_same_content_is_one_version_for_every_launch_and_every_replica(
    region: Region, fake: FakeEc2
) -> None:
    one, other = region.provider(), region.provider()
    await one.launch(wanting("t1"))
    asked = len(fake.calls)
    await one.launch(wanting("t2"))
    assert len(fake.calls) == asked + 1, "a launch of known content is one call"
    await other.launch(wanting("t3"))
    assert versions(fake) == [1]


async def test_changed_content_is_a_new_version_and_the_old_one_is_found_again(
    region: Region, fake: FakeEc2
) -> None:
    await region.provider().launch(wanting("t1"))
    await region.provider().launch(wanting("t2", template=template(hop_limit=2)))
    assert versions(fake) == [2]
    await region.provider().launch(wanting("t3"))
    assert versions(fake) == [2]
    asked = fake.cloud.fleets.values()
    used = [each["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"]["Version"] for each, _ in asked]
    assert used == ["1", "2", "1"]


async def test_each_template_of_each_installation_has_one_of_its_own(region: Region, fake: FakeEc2) -> None:
    await region.provider().launch(wanting("t1"))
    await region.provider().launch(wanting("t2", template=template("other")))
    await region.provider().launch(wanting("t3", installation_id="inst-2"))
    assert sorted(fake.cloud.templates) == ["muster-inst-1-other", "muster-inst-1-work", "muster-inst-2-work"]


async def test_a_launch_template_that_was_deleted_by_hand_is_made_anew(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    await provider.launch(wanting("t1"))
    fake.cloud.templates.clear()
    with pytest.raises(Throttled):
        await provider.launch(wanting("t2"))
    assert len((await provider.launch(wanting("t2"))).machines) == 1


async def test_a_lost_reply_to_a_new_launch_template_makes_no_second_one(
    provider: Ec2Provider, fake: FakeEc2
) -> None:
    fake.faults.lose("CreateLaunchTemplate")
    with pytest.raises(Uncertain):
        await provider.launch(wanting())
    assert len((await provider.launch(wanting())).machines) == 1
    assert versions(fake) == [1]


async def test_a_launch_template_that_another_replica_made_meanwhile_is_used(
    region: Region, fake: FakeEc2
) -> None:
    await region.provider().launch(wanting("t1"))
    fake.faults.fail("DescribeLaunchTemplateVersions", "InvalidLaunchTemplateName.NotFoundException")
    await region.provider().launch(wanting("t2"))
    assert versions(fake) == [1]


@pytest.mark.parametrize("action", ["CreateLaunchTemplate", "CreateLaunchTemplateVersion"])
async def test_only_a_fleet_that_ec2_knows_has_happened(region: Region, fake: FakeEc2, action: str) -> None:
    """What is said of a launch template's token says nothing of machines."""
    if action == "CreateLaunchTemplateVersion":
        await region.provider().launch(wanting("t0", template=template(hop_limit=2)))
    asked = fake.counted(CREATE)
    fake.faults.fail(action, "IdempotentParameterMismatch")
    with pytest.raises(Refused, match="IdempotentParameterMismatch"):
        await region.provider().launch(wanting("t1"))
    assert fake.counted(CREATE) == asked


async def test_a_launch_whose_content_changed_since_its_first_call_is_spent(
    region: Region, fake: FakeEc2
) -> None:
    """As after an upgrade between a crash and the repeat: the machines are there, and must be looked for."""
    fake.faults.lose(CREATE)
    with pytest.raises(Uncertain):
        await region.provider().launch(wanting("t1", 2))
    upgraded = region.provider(servers=("http://127.0.0.1:9",))
    with pytest.raises(TokenSpent):
        await upgraded.launch(wanting("t1", 2))
    assert len(await upgraded.find("t1")) == 2


async def test_a_disk_is_put_on_the_device_of_the_image(provider: Ec2Provider, fake: FakeEc2) -> None:
    await provider.launch(wanting(template=template(disk_gib=80)))
    root, _ = fake.instances()[0].data["BlockDeviceMappings"]
    assert root["DeviceName"] == "/dev/xvda" and root["Ebs"]["VolumeSize"] == 80
    assert spec().disk_gib is None


async def test_every_volume_of_the_image_goes_with_its_machine(provider: Ec2Provider, fake: FakeEc2) -> None:
    await provider.launch(wanting())
    mappings = fake.instances()[0].data["BlockDeviceMappings"]
    ends = {"DeleteOnTermination": True}
    assert mappings == [{"DeviceName": "/dev/xvda", "Ebs": ends}, {"DeviceName": "/dev/sdb", "Ebs": ends}]
