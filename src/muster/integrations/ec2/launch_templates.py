"""Keep EC2 launch templates in step with Muster's templates: found by content hash, made when missing.

This module owns the version to launch with. A version is never changed or deleted here: machines of an
unanswered call may need it. No client token is sent: AWS would answer a used one from memory, even after its
launch template was deleted. The name prevents a second launch template. A version that was made twice has the
same content twice.

The hash is over the intended content. So the same content is found again after a restart, by another replica,
and however the user data was compressed.
"""

import base64
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from muster.integrations.ec2 import tags
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.errors import NO_LAUNCH_TEMPLATE, AwsError
from muster.integrations.ec2.placement import Placement
from muster.integrations.ec2.tables import Ec2Spec
from muster.integrations.ec2.user_data import packed
from muster.ports.provider import LaunchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    name: str
    hash: str
    data: dict[str, Any]
    """In the form that AWS takes."""
    tags: list[dict[str, Any]]
    """For the launch template itself."""

    @property
    def description(self) -> str:
        """Return the description of a version, which carries its hash."""
        return f"muster {self.hash}"


def content(asked: LaunchRequest, spec: Ec2Spec, *, script: str, place: Placement) -> Content:
    own = tags.of_template(asked)
    data: dict[str, Any] = {
        "ImageId": spec.image,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": spec.hop_limit,
        },
        "TagSpecifications": tags.specification(("volume", "network-interface"), own),
    }
    if spec.security_groups:
        data["SecurityGroupIds"] = list(spec.security_groups)
    if spec.instance_profile:
        kind = "Arn" if spec.instance_profile.startswith("arn:") else "Name"
        data["IamInstanceProfile"] = {kind: spec.instance_profile}
    disks = _disks(spec, place)
    if disks:
        data["BlockDeviceMappings"] = [{"DeviceName": name, "Ebs": disk} for name, disk in disks.items()]
    meant = json.dumps({**data, "UserData": script}, sort_keys=True)
    return Content(
        name=f"muster-{asked.installation_id}-{asked.template.name}",
        hash=sha256(meant.encode()).hexdigest(),
        data={**data, "UserData": base64.b64encode(packed(script)).decode()},
        tags=tags.specification(("launch-template",), own),
    )


def _disks(spec: Ec2Spec, place: Placement) -> dict[str, dict[str, Any]]:
    """Return the disks. Each is deleted with its machine, also where the image says otherwise."""
    disks: dict[str, dict[str, Any]] = {name: {"DeleteOnTermination": True} for name in place.volumes}
    if spec.disk_gib is not None:
        size = {"VolumeSize": spec.disk_gib, "VolumeType": "gp3"}
        disks[place.root_device] = {**size, "DeleteOnTermination": True}
    return disks


LATEST = "$Latest"
EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
PAGE = 200


class LaunchTemplates:
    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._known: dict[tuple[str, str], int] = {}

    async def version(self, content: Content) -> int:
        """Return the number of the version with this content; create it if there is none."""
        key = (content.name, content.hash)
        if key not in self._known:
            self._known[key] = await self.found(content) or await self._made(content)
        return self._known[key]

    def forget(self, content: Content) -> None:
        """Drop a launch template that was deleted in AWS."""
        self._known = {key: number for key, number in self._known.items() if key[0] != content.name}

    async def found(self, content: Content) -> int | None:
        """Return the version with this content: nearly always the newest."""
        try:
            return await self._version(content, Versions=[LATEST]) or await self._version(
                content, MaxResults=PAGE
            )
        except AwsError as error:
            if error.code in NO_LAUNCH_TEMPLATE:
                return None
            raise

    async def _version(self, content: Content, **which: Any) -> int | None:
        numbers: list[int] = []
        async for page in self._aws.pages(
            "describe_launch_template_versions", LaunchTemplateName=content.name, **which
        ):
            numbers += [
                int(each["VersionNumber"])
                for each in page.get("LaunchTemplateVersions", ())
                if each.get("VersionDescription") == content.description
            ]
        return min(numbers, default=None)

    async def _made(self, content: Content) -> int:
        given = {
            "LaunchTemplateName": content.name,
            "VersionDescription": content.description,
            "LaunchTemplateData": content.data,
        }
        try:
            first = await self._aws.write("create_launch_template", **given, TagSpecifications=content.tags)
            return int(first["LaunchTemplate"]["LatestVersionNumber"])
        except AwsError as error:
            if error.code != EXISTS:
                raise
        # Another replica was faster, most likely with the same content.
        found = await self.found(content)
        if found is not None:
            return found
        made = await self._aws.write("create_launch_template_version", **given)
        return int(made["LaunchTemplateVersion"]["VersionNumber"])
