"""Choose instance types for a launch: exactly the class's processors, or more where no type has so few.

This module owns the widening. EC2 is asked before the launch call, once per combination. In half of the
regions, a class of one processor matches no type on x86_64. Credentials without the right to ask get the
exact size.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.integrations.ec2 import fleet
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.errors import DENIED, AwsError
from muster.integrations.ec2.tables import Ec2Spec
from muster.ports.provider import LaunchRequest

WIDTHS = (1, 2, 4)
"""The most processors, as multiples of the class's."""
_Key = tuple[Ec2Spec, int, int, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    cpu_most: int
    types: tuple[str, ...]
    """In EC2's order. Empty: EC2 couldn't be asked."""


class Sizes:
    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._known: dict[_Key, Fit] = {}
        """A region gains types and hardly ever loses one."""

    async def fit(self, asked: LaunchRequest, spec: Ec2Spec) -> Fit:
        """Return the most processors to allow. Raises Refused if no type fits, and the errors of a look."""
        size = asked.resource_class
        key = (spec, size.cpu, size.memory_mib, asked.instance_types)
        if key not in self._known:
            try:
                self._known[key] = await self._look(asked, spec)
            except AwsError as error:
                if error.code not in DENIED:
                    raise
                return Fit(cpu_most=size.cpu, types=())
        return self._known[key]

    async def _look(self, asked: LaunchRequest, spec: Ec2Spec) -> Fit:
        size = asked.resource_class
        for width in WIDTHS:
            most = size.cpu * width
            types = tuple([each async for each in self._types(asked, spec, most)])
            if types:
                return Fit(cpu_most=most, types=types)
        words = f"cannot launch: {_nothing(asked, spec, size.cpu * WIDTHS[-1])}"
        raise Refused(words, Reason.PROVIDER_REFUSED)

    async def _types(self, asked: LaunchRequest, spec: Ec2Spec, cpu_most: int) -> AsyncIterator[str]:
        async for page in self._aws.pages(
            "get_instance_types_from_instance_requirements",
            ArchitectureTypes=[spec.architecture.value],
            VirtualizationTypes=["hvm"],
            InstanceRequirements=fleet.requirements(asked, spec, cpu_most=cpu_most),
        ):
            for each in page.get("InstanceTypes", ()):
                yield str(each["InstanceType"])


def _nothing(asked: LaunchRequest, spec: Ec2Spec, most: int) -> str:
    size = asked.resource_class
    return (
        f"no instance type of this region has {size.cpu} to {most} processors and {size.memory_mib} MiB for"
        f" {spec.architecture} among {_patterns(asked.instance_types)}; name other instance_types"
        " (burstable and previous generations must be named: t3.*, m5.*) or another class"
    )


def _patterns(patterns: Sequence[str]) -> str:
    return "all" if fleet.ANY in patterns else " ".join(patterns)
