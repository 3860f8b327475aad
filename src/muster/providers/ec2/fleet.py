"""From a launch to the one call that makes its machines: an instant fleet, chosen by attributes.

Pure: the same launch and launch template give the same request, so that a repeat with its token is the same
call to AWS.
"""

from hashlib import sha256
from typing import Any

from muster.domain.ec2 import Architecture, Ec2Spec
from muster.domain.template import UsageClass
from muster.ports.provider import LaunchRequest
from muster.providers.ec2 import tags

MAKERS = {Architecture.X86_64: ["intel", "amd"], Architecture.ARM64: ["amazon-web-services"]}
ANY = "*"


def request(asked: LaunchRequest, spec: Ec2Spec, *, launch_template: str, version: int) -> dict[str, Any]:
    spot = asked.usage_class is UsageClass.SPOT
    options = (
        {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
        if spot
        else {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
    )
    return {
        "Type": "instant",
        "ClientToken": client_token(asked.token),
        "LaunchTemplateConfigs": [
            {
                # A number, never $Latest: what it means must not change between a call and its repeat.
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": launch_template,
                    "Version": str(version),
                },
                "Overrides": [
                    {"SubnetId": subnet, "InstanceRequirements": requirements(asked, spec)}
                    for subnet in spec.subnets
                ],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": asked.count,
            "DefaultTargetCapacityType": asked.usage_class.value,
            "SpotTargetCapacity" if spot else "OnDemandTargetCapacity": asked.count,
        },
        **options,
        "TagSpecifications": tags.specification(("fleet", "instance"), tags.of_launch(asked)),
    }


def requirements(asked: LaunchRequest, spec: Ec2Spec) -> dict[str, Any]:
    """The class's processors exactly, its memory at least, and the patterns. Price protection is always said:
    AWS's own default silently drops types."""
    size = asked.resource_class
    found: dict[str, Any] = {
        "VCpuCount": {"Min": size.cpu, "Max": size.cpu},
        "MemoryMiB": {"Min": size.memory_mib},
        "CpuManufacturers": MAKERS[spec.architecture],
        "BurstablePerformance": "excluded",
        "BareMetal": "excluded",
        # AWS's default is any: m* would reach back to the oldest, and spot takes those gladly (ADR 27).
        "InstanceGenerations": ["current"],
        "OnDemandMaxPricePercentageOverLowestPrice": spec.price_protection,
        "SpotMaxPricePercentageOverLowestPrice": spec.price_protection,
    }
    if ANY not in asked.instance_types:
        found["AllowedInstanceTypes"] = [pattern.lower() for pattern in asked.instance_types]
    return found


def client_token(token: str) -> str:
    """AWS takes 64 characters at most."""
    return sha256(token.encode()).hexdigest()
