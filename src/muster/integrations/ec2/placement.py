"""Read images and subnets once before they are used, and refuse what can't work in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.tables import Ec2Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    root_device: str
    volumes: tuple[str, ...]
    """The devices for which the image brings a volume, in its order."""
    zones: tuple[str, ...]
    """One per subnet, in their order."""


class Placements:
    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._known: dict[Ec2Spec, Placement] = {}
        """Neither the zone of a subnet nor the device of an image ever changes."""

    async def place(self, spec: Ec2Spec) -> Placement:
        """Return the placement of a spec. Raises Refused for an image or subnets that can't be used."""
        known = self._known.get(spec)
        if known is None:
            zones = await self._zones(spec.subnets)
            image = await self._image(spec)
            known = Placement(
                root_device=str(image.get("RootDeviceName", "/dev/xvda")),
                volumes=_volumes(image),
                zones=zones,
            )
            self._known[spec] = known
        return known

    async def _zones(self, subnets: Sequence[str]) -> tuple[str, ...]:
        answer = await self._aws.read("describe_subnets", SubnetIds=list(subnets))
        zones = {each["SubnetId"]: each["AvailabilityZone"] for each in answer.get("Subnets", ())}
        first: dict[str, str] = {}
        for subnet in subnets:
            zone = zones.get(subnet)
            if zone is None:
                raise _refused(f"there is no subnet {subnet} in this region")
            if zone in first:
                raise _refused(
                    f"the subnets {first[zone]} and {subnet} are both in {zone}; a fleet takes one per zone,"
                    " so name one of them in the template's ec2.subnets"
                )
            first[zone] = subnet
        return tuple(zones[subnet] for subnet in subnets)

    async def _image(self, spec: Ec2Spec) -> Mapping[str, Any]:
        answer = await self._aws.read("describe_images", ImageIds=[spec.image])
        image: Mapping[str, Any] | None = next(iter(answer.get("Images", ())), None)
        if image is None:
            raise _refused(f"there is no image {spec.image} in this region that these credentials may use")
        if image.get("Architecture") != spec.architecture.value:
            raise _refused(
                f"the image {spec.image} is for {image.get('Architecture')}, and the template for"
                f" {spec.architecture}; set the template's ec2.architecture or ec2.image"
            )
        return image


def _volumes(image: Mapping[str, Any]) -> tuple[str, ...]:
    mappings = image.get("BlockDeviceMappings", ())
    return tuple(str(each["DeviceName"]) for each in mappings if each.get("Ebs"))


def _refused(why: str) -> Refused:
    return Refused(f"cannot launch: {why}", Reason.PROVIDER_REFUSED)
