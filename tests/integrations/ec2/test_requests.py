"""What is asked of EC2: the fleet, the launch template, the user data."""

import base64
import gzip
import json
import random
import subprocess
from dataclasses import replace

import pytest

import muster.agent
from muster.domain.errors import Refused
from muster.domain.ids import LaunchId
from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from muster.integrations.ec2 import fleet, launch_templates, user_data
from muster.integrations.ec2.launch_templates import Content
from muster.integrations.ec2.placement import Placement
from muster.integrations.ec2.tables import Architecture
from tests.integrations.ec2.region import SUBNETS, spec, wanting

REQUEST = replace(wanting("inst/op-1.2", 3, patterns=("c*", "M7i.*")), launch_id=LaunchId("op-1.2"))
PLACE = Placement(root_device="/dev/xvda", volumes=(), zones=("eu-west-1a",))
SCRIPT = user_data.script("print()\n", servers=["https://muster.example.com"], dead_man=1740.0)


def content(**more: object) -> Content:
    return launch_templates.content(REQUEST, spec(**more), script=SCRIPT, place=PLACE)


def test_a_fleet_is_instant_and_asks_for_attributes_in_each_subnet() -> None:
    asked = fleet.request(REQUEST, spec(), launch_template="lt", version=7, cpu_most=2)
    assert asked["Type"] == "instant"
    (config,) = asked["LaunchTemplateConfigs"]
    assert config["LaunchTemplateSpecification"] == {"LaunchTemplateName": "lt", "Version": "7"}
    assert [each["SubnetId"] for each in config["Overrides"]] == list(SUBNETS)
    for override in config["Overrides"]:
        wanted = override["InstanceRequirements"]
        assert (wanted["VCpuCount"], wanted["MemoryMiB"]) == ({"Min": 2, "Max": 2}, {"Min": 4096})
        assert wanted["AllowedInstanceTypes"] == ["c*", "m7i.*"]
        assert (wanted["BurstablePerformance"], wanted["CpuManufacturers"]) == ("excluded", ["intel", "amd"])
        assert (wanted["BareMetal"], wanted["InstanceGenerations"]) == ("excluded", ["current"])


@pytest.mark.parametrize(
    ("usage", "target", "option", "strategy"),
    [
        (UsageClass.ON_DEMAND, "OnDemandTargetCapacity", "OnDemandOptions", "lowest-price"),
        (UsageClass.SPOT, "SpotTargetCapacity", "SpotOptions", "price-capacity-optimized"),
    ],
)
def test_all_of_a_fleet_is_of_the_usage_class_that_was_asked_for(
    usage: UsageClass, target: str, option: str, strategy: str
) -> None:
    asked = fleet.request(
        replace(REQUEST, usage_class=usage), spec(), launch_template="lt", version=1, cpu_most=2
    )
    assert asked["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 3,
        "DefaultTargetCapacityType": usage.value,
        target: 3,
    }
    assert asked[option] == {"AllocationStrategy": strategy}
    assert len({"OnDemandOptions", "SpotOptions"} & set(asked)) == 1


def test_price_protection_is_always_said_because_the_default_drops_types() -> None:
    wanted = fleet.requirements(REQUEST, spec(price_protection=250), cpu_most=2)
    assert wanted["OnDemandMaxPricePercentageOverLowestPrice"] == 250
    assert wanted["SpotMaxPricePercentageOverLowestPrice"] == 250


def test_any_type_is_no_restriction_and_arm_is_asked_for_by_its_maker() -> None:
    wanted = fleet.requirements(
        replace(REQUEST, instance_types=("c*", "*")), spec(architecture=Architecture.ARM64), cpu_most=2
    )
    assert "AllowedInstanceTypes" not in wanted
    assert wanted["CpuManufacturers"] == ["amazon-web-services"]


def test_fleet_and_instances_are_tagged_with_all_that_they_belong_to() -> None:
    asked = fleet.request(REQUEST, spec(), launch_template="lt", version=1, cpu_most=2)
    assert [each["ResourceType"] for each in asked["TagSpecifications"]] == ["fleet", "instance"]
    for each in asked["TagSpecifications"]:
        assert {tag["Key"]: tag["Value"] for tag in each["Tags"]} == {
            "Name": "muster-work",
            "muster:installation": "inst-1",
            "muster:template": "work",
            "muster:token": "inst/op-1.2",
            "muster:launch": "op-1.2",
            "muster:operation": "op-1",
        }


def test_the_token_is_of_the_launch_and_of_nothing_else() -> None:
    first = fleet.client_token("inst/op-1.2")
    assert first == fleet.client_token("inst/op-1.2") != fleet.client_token("inst/op-1.3")
    assert len(first) == 64 and first.isascii()


def test_a_machine_ends_by_shutting_down_and_answers_only_to_imdsv2() -> None:
    data = content().data
    assert data["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }
    assert "IamInstanceProfile" not in data and "BlockDeviceMappings" not in data


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"image": "ami-00000000000000009"}, "ImageId"),
        ({"instance_profile": "ci"}, "IamInstanceProfile"),
        ({"security_groups": ("sg-00000000000000001",)}, "SecurityGroupIds"),
        ({"hop_limit": 2}, "MetadataOptions"),
        ({"disk_gib": 50}, "BlockDeviceMappings"),
    ],
)
def test_whatever_a_machine_is_made_of_changes_the_hash(changed: dict[str, object], where: str) -> None:
    before, after = content(), content(**changed)
    assert before.hash != after.hash
    assert before.data.get(where) != after.data[where]
    assert before.name == after.name


def test_the_user_data_is_part_of_the_hash_and_the_subnets_are_not() -> None:
    other = launch_templates.content(REQUEST, spec(), script=SCRIPT + "#", place=PLACE)
    assert other.hash != content().hash
    assert content(subnets=SUBNETS[:1]).hash == content().hash == content().hash


def test_the_launch_template_knows_no_launch() -> None:
    other = replace(REQUEST, token="another", launch_id=LaunchId("op-9.1"), count=1)
    again = launch_templates.content(other, spec(), script=SCRIPT, place=PLACE)
    assert again == content()
    assert "op-1" not in json.dumps(content().data)


def test_the_user_data_is_small_and_the_same_for_every_machine() -> None:
    script = user_data.script(muster.agent.source(), servers=["https://m.example.com"], dead_man=1740.0)
    packed = user_data.packed(script)
    assert len(packed) < user_data.LIMIT
    assert packed == user_data.packed(script)
    assert gzip.decompress(packed).decode() == script
    sent = launch_templates.content(REQUEST, spec(), script=script, place=PLACE).data["UserData"]
    assert base64.b64decode(sent) == packed


def test_user_data_that_is_too_large_is_refused_with_its_size_and_the_limit() -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=40_000))
    with pytest.raises(Refused, match=r"\d{5} bytes compressed, and EC2 takes 16384") as caught:
        user_data.packed(user_data.script(noise, servers=["https://m.example.com"], dead_man=1.0))
    assert caught.value.reason is Reason.PROVIDER_REFUSED


def test_the_switch_is_set_before_anything_else_is_even_written() -> None:
    script = user_data.script(muster.agent.source(), servers=["https://m.example.com"], dead_man=1740.0)
    switch, agent, join = (script.index(part) for part in ("/until", 'agent.py" <<', "--identity ec2"))
    assert switch < agent < join
    assert "+ 1740 + 60" in script


def test_it_is_bash_and_a_server_with_odd_letters_stays_one_word() -> None:
    script = user_data.script("print()\n", servers=["https://a;b/$(c)", "https://d"], dead_man=1.5)
    checked = subprocess.run(["bash", "-n"], input=script, text=True, check=False, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "--server 'https://a;b/$(c)' --server https://d" in script
    assert "@" not in script
