"""What a machine is before it has heard of us, as a launch template, and the hash that tells two apart.

Pure. The hash is over the content that is meant, so the same content is found again after a restart, by
another replica, and whatever the compressor makes of the user data.
"""

import base64
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from muster.integrations.ec2 import tags
from muster.integrations.ec2.spec import Ec2Spec
from muster.integrations.ec2.survey import Place
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
        """A version carries its hash here."""
        return f"muster {self.hash}"


def content(asked: LaunchRequest, spec: Ec2Spec, *, script: str, place: Place) -> Content:
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


def _disks(spec: Ec2Spec, place: Place) -> dict[str, dict[str, Any]]:
    """Each goes with its machine, also those of an image that would leave them behind."""
    disks: dict[str, dict[str, Any]] = {name: {"DeleteOnTermination": True} for name in place.volumes}
    if spec.disk_gib is not None:
        size = {"VolumeSize": spec.disk_gib, "VolumeType": "gp3"}
        disks[place.root_device] = {**size, "DeleteOnTermination": True}
    return disks
