"""Build the one call that makes a launch's machines: an instant fleet, chosen by attributes.

Pure: the same launch and launch template give the same request. So a repeat with its token is the same call
to AWS.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from muster.domain.template import UsageClass
from muster.integrations.ec2 import tags
from muster.integrations.ec2.tables import Architecture, Ec2Spec
from muster.ports.provider import LaunchRequest

MAKERS = {Architecture.X86_64: ["intel", "amd"], Architecture.ARM64: ["amazon-web-services"]}
ANY = "*"


def request(
    asked: LaunchRequest,
    spec: Ec2Spec,
    *,
    launch_template: str,
    version: int,
    cpu_most: int,
    spared: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """Return the call. `spared`: the types that each subnet may use, if some are to be avoided."""
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
                    {
                        "SubnetId": subnet,
                        "InstanceRequirements": requirements(asked, spec, cpu_most=cpu_most)
                        | ({"AllowedInstanceTypes": list(spared[subnet])} if spared else {}),
                    }
                    for subnet in spec.subnets
                    if not spared or subnet in spared
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


def requirements(asked: LaunchRequest, spec: Ec2Spec, *, cpu_most: int) -> dict[str, Any]:
    """Return the class's processors (or up to `cpu_most` where no type has so few), its least memory, and the
    types.

    Price protection is always set: AWS's own default silently drops types. A burstable type serves where a
    pattern names it. A previous generation serves where all patterns name their generation.
    """
    size, patterns = asked.resource_class, [pattern.lower() for pattern in asked.instance_types]
    any_type = ANY in patterns
    named = not any_type and all(_names_generation(each) for each in patterns)
    burstable = not any_type and any(_BURSTABLE.match(each) for each in patterns)
    found: dict[str, Any] = {
        "VCpuCount": {"Min": size.cpu, "Max": cpu_most},
        "MemoryMiB": {"Min": size.memory_mib},
        "CpuManufacturers": MAKERS[spec.architecture],
        "BurstablePerformance": "included" if burstable else "excluded",
        "BareMetal": "excluded",
        # AWS's default is any: m* would reach back to the oldest, and spot takes those gladly (ADR 27).
        "InstanceGenerations": ["current", "previous"] if named else ["current"],
        "OnDemandMaxPricePercentageOverLowestPrice": spec.price_protection,
        "SpotMaxPricePercentageOverLowestPrice": spec.price_protection,
    }
    if not any_type:
        found["AllowedInstanceTypes"] = patterns
    return found


_GENERATION = re.compile(r"[a-z]+\d")
_BURSTABLE = re.compile(r"t\d")


def _names_generation(pattern: str) -> bool:
    """Return whether a pattern names a generation: m5.large, m5.* or m5*, and not m*."""
    return _GENERATION.match(pattern) is not None


def client_token(token: str) -> str:
    """Hash the token: AWS takes 64 characters at most."""
    return sha256(token.encode()).hexdigest()
