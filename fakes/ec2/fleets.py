"""Instant fleets: which types fit, which pools have room, and what is said when they don't."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from fakes.ec2 import catalogue
from fakes.ec2.query_protocol import ApiError

if TYPE_CHECKING:
    from fakes.ec2.cloud import Cloud, Subnet

Params = Mapping[str, Any]


def create(cloud: "Cloud", given: Params) -> dict[str, Any]:
    if given.get("Type") != "instant":
        raise ApiError("InvalidParameterValue", "Only fleets of type instant are known here.")
    (config,) = given["LaunchTemplateConfigs"]
    data = cloud.template_data(config["LaunchTemplateSpecification"])
    subnets = _subnets(cloud, config["Overrides"])
    target = given["TargetCapacitySpecification"]
    spot = target["DefaultTargetCapacityType"] == "spot"
    by_subnet = {
        each["SubnetId"]: catalogue.fitting(each["InstanceRequirements"], spot=spot)
        for each in config["Overrides"]
    }
    types = next(iter(by_subnet.values()))
    wrong = _wrong(cloud, data, types)
    if cloud.faults.throttled_fleets:
        cloud.faults.throttled_fleets -= 1
        wrong = ("RequestLimitExceeded", "Request limit exceeded.")
    room = 0 if wrong is not None else _room(cloud, spot=spot)
    count = min(target["TotalTargetCapacity"], room)
    instances = [
        cloud.launched(
            kind=by_subnet[subnet.id][0].name, subnet=subnet, spot=spot, tags=_tags(given), data=data
        )
        for subnet, _ in zip(cycle(subnets), range(count), strict=False)
    ]
    short = wrong or ("InsufficientInstanceCapacity", "There is no capacity in this zone at present.")
    missing = count < target["TotalTargetCapacity"]
    return {
        "FleetId": f"fleet-{len(cloud.fleets) + 1:08x}",
        "Instances": [
            {
                "InstanceIds": [each.id],
                "InstanceType": each.type,
                "Lifecycle": "spot" if spot else "on-demand",
            }
            for each in instances
        ],
        "Errors": [
            {"ErrorCode": short[0], "ErrorMessage": short[1], "Lifecycle": "spot" if spot else "on-demand"}
            for _ in (subnets if missing else ())
        ],
    }


def _subnets(cloud: "Cloud", overrides: list[Params]) -> "list[Subnet]":
    known = {each.id: each for each in cloud.region.subnets}
    found: dict[str, Subnet] = {}
    for override in overrides:
        subnet = known.get(override["SubnetId"])
        if subnet is None:
            raise ApiError(
                "InvalidSubnetID.NotFound", f"The subnet ID '{override['SubnetId']}' does not exist"
            )
        if subnet.zone in found:
            text = f"The fleet configuration contains duplicate instance pools in {subnet.zone}."
            raise ApiError("InvalidFleetConfig", text)
        found[subnet.zone] = subnet
    return list(found.values())


def _wrong(cloud: "Cloud", data: Params, types: list[catalogue.InstanceType]) -> tuple[str, str] | None:
    """Return why a fleet can't be made, in the words of its errors."""
    if not types:
        return "InvalidFleetConfiguration", "No instance types match the instance requirements."
    if data["ImageId"] not in cloud.region.images:
        return "InvalidAMIID.NotFound", f"The image id '[{data['ImageId']}]' does not exist"
    for group in data.get("SecurityGroupIds", ()):
        if group not in cloud.region.groups:
            return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
    profile = data.get("IamInstanceProfile", {}).get("Name")
    if profile is not None and profile not in cloud.region.profiles:
        text = f"Value ({profile}) for parameter iamInstanceProfile.name is invalid."
        return "InvalidParameterValue", f"{text} Invalid IAM Instance Profile name"
    return None


def _room(cloud: "Cloud", *, spot: bool) -> int:
    there = [each for each in cloud.instances.values() if each.there]
    room = 1 << 20
    if cloud.faults.capacity is not None:
        room = cloud.faults.capacity - len(there)
    if spot and cloud.faults.spot_capacity is not None:
        room = min(room, cloud.faults.spot_capacity - sum(each.spot for each in there))
    return max(0, room)


def _tags(given: Params) -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for each in given.get("TagSpecifications", ())
        if each["ResourceType"] == "instance"
        for tag in each["Tags"]
    }
