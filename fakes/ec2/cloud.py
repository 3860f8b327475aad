"""The state of one region, and the verbs over it. Each verb takes and returns what the SDK's callers do.

It lives in the server's loop alone, and behaves as real EC2 does. A new instance isn't shown at once. One
unknown id fails a whole batch. A launch template's version never changes. Terminated instances stay listed. A
client token that succeeded gets the same answer, whatever became of its machines.
"""

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fakes.ec2 import catalogue, fleets
from fakes.ec2.faults import Boot, Faults
from fakes.ec2.machines import Machine
from fakes.ec2.query_protocol import ApiError
from fakes.ec2.signing import Signer, document

ACCOUNT = "123456789012"
Params = Mapping[str, Any]
Later = Callable[[float, Callable[[], None]], None]


@dataclass(slots=True, kw_only=True)
class Instance:
    id: str
    type: str
    zone: str
    subnet: str
    spot: bool
    tags: dict[str, str]
    data: Params
    """Of its launch template."""
    launched_at: float
    state: str = "running"
    notice_at: float | None = None
    """When a spot instance is taken back, once that was said."""
    why: tuple[str, str] | None = None
    """Code and text of why it ended."""
    machine: Machine | None = None

    @property
    def there(self) -> bool:
        return self.state != "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    id: str
    zone: str


@dataclass(slots=True, kw_only=True)
class Region:
    """What an account has there before the first launch."""

    name: str = "eu-west-1"
    subnets: tuple[Subnet, ...] = (
        Subnet(id="subnet-0000000000000000a", zone="eu-west-1a"),
        Subnet(id="subnet-0000000000000000b", zone="eu-west-1b"),
        Subnet(id="subnet-000000000000000b2", zone="eu-west-1b"),
    )
    images: Mapping[str, str] = field(
        default_factory=lambda: {"ami-00000000000000001": "x86_64", "ami-00000000000000002": "arm64"}
    )
    groups: tuple[str, ...] = ("sg-00000000000000001",)
    profiles: tuple[str, ...] = ("ci",)


class Cloud:
    def __init__(
        self,
        region: Region,
        faults: Faults,
        signer: Signer,
        *,
        later: Later,
        build: Callable[[str], Machine] | None,
    ) -> None:
        self.region = region
        self.faults = faults
        self.signer = signer
        self.instances: dict[str, Instance] = {}
        self.templates: dict[str, list[dict[str, Any]]] = {}
        """By name: versions, each with its number, description and data."""
        self.fleets: dict[str, tuple[Params, dict[str, Any]]] = {}
        """By client token: what was asked, and what was answered."""
        self._template_calls: dict[str, tuple[Params, dict[str, Any]]] = {}
        """The same of launch templates and their versions."""
        self._later = later
        self._build = build
        """None: instances are records only."""
        self._made = 0

    def do(self, action: str, given: Params) -> dict[str, Any]:
        spot = given.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
        denied = {action, f"{action} of spot"} if spot else {action}
        if denied & self.faults.denied or not self._is_own(action, given):
            raise ApiError("UnauthorizedOperation", f"You are not authorized to perform {action}.", 403)
        verb = getattr(self, _snake(action), None)
        if verb is None:
            raise ApiError("InvalidAction", f"The action {action} is not valid for this web service.")
        if given.get("DryRun"):
            raise ApiError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        found: dict[str, Any] = verb(given)
        return found

    def _is_own(self, action: str, given: Params) -> bool:
        """Return whether it is ours. A missing machine has no tag, so AWS denies it before it looks."""
        if self.faults.own_tag is None:
            return True
        name, value = self.faults.own_tag
        if action == "CreateLaunchTemplateVersion":
            return given["LaunchTemplateName"] in self.templates
        asked = {
            "TerminateInstances": given.get("InstanceIds"),
            "GetConsoleOutput": [given.get("InstanceId")],
        }
        return all(
            each in self.instances and self.instances[each].tags.get(name) == value
            for each in asked.get(action) or ()
        )

    # --- fleets -----------------------------------------------------------------------------------

    def create_fleet(self, given: Params) -> dict[str, Any]:
        return _once(self.fleets, given, lambda: fleets.create(self, given))

    def launched(
        self, *, kind: str, subnet: Subnet, spot: bool, tags: dict[str, str], data: Params
    ) -> Instance:
        self._made += 1
        instance = Instance(
            id=f"i-{self._made:017x}",
            type=kind,
            zone=subnet.zone,
            subnet=subnet.id,
            spot=spot,
            tags=tags,
            data=data,
            launched_at=time.time(),
        )
        self.instances[instance.id] = instance
        how = self.faults.boots.popleft() if self.faults.boots else Boot.NORMAL
        if self._build is not None:
            instance.machine = self._build(instance.id)
            for _ in range({Boot.NORMAL: 1, Boot.NEVER: 0, Boot.TWICE: 2}[how]):
                instance.machine.start(data.get("UserData", ""))
        return instance

    def get_instance_types_from_instance_requirements(self, given: Params) -> dict[str, Any]:
        arm = given["ArchitectureTypes"] == ["arm64"]
        found = catalogue.fitting(given["InstanceRequirements"], spot=False)
        kept = [each.name for each in found if (each.maker == catalogue.GRAVITON) is arm]
        start, size = int(given.get("NextToken") or 0), 5
        more = {"NextToken": str(start + size)} if start + size < len(kept) else {}
        return {"InstanceTypes": [{"InstanceType": each} for each in kept[start : start + size]], **more}

    def run_instances(self, given: Params) -> dict[str, Any]:
        raise ApiError("UnsupportedOperation", "Only fleets launch here; RunInstances is for dry runs.")

    # --- instances --------------------------------------------------------------------------------

    def describe_instances(self, given: Params) -> dict[str, Any]:
        found = [each for each in self._visible() if _matches(each, given.get("Filters", ()))]
        for wanted in given.get("InstanceIds", ()):
            if wanted not in {each.id for each in found}:
                raise _not_found([wanted])
        start, size = int(given.get("NextToken") or 0), given.get("MaxResults", 1000)
        shown = [{"Instances": [_shown(each)]} for each in found[start : start + size]]
        more = {"NextToken": str(start + size)} if start + size < len(found) else {}
        return {"Reservations": shown, **more}

    def _visible(self) -> Iterator[Instance]:
        now = time.time()
        return (each for each in self.instances.values() if now >= each.launched_at + self.faults.lag)

    def terminate_instances(self, given: Params) -> dict[str, Any]:
        unknown = [each for each in given["InstanceIds"] if each not in self.instances]
        if unknown:
            raise _not_found(unknown)
        for each in given["InstanceIds"]:
            self.end(self.instances[each])
        return {"TerminatingInstances": [{"InstanceId": each} for each in given["InstanceIds"]]}

    def end(self, instance: Instance) -> None:
        if instance.state in ("shutting-down", "terminated"):
            return
        instance.state = "shutting-down"
        if self.faults.termination:
            self._later(self.faults.termination, lambda: self.gone(instance))
        else:
            self.gone(instance)

    def gone(self, instance: Instance) -> None:
        if instance.machine is not None:
            instance.machine.kill()
        instance.state = "terminated"

    def powered_off(self, instance: Instance) -> None:
        """Note that the instance shut itself down."""
        if instance.data.get("InstanceInitiatedShutdownBehavior") == "terminate":
            self.end(instance)
        elif instance.machine is not None:
            instance.machine.kill()
            instance.state = "stopped"

    def interrupt(self, instance: Instance, seconds: float) -> None:
        instance.notice_at = time.time() + seconds
        self._later(seconds, lambda: self.take_back(instance))

    def take_back(self, instance: Instance) -> None:
        code = "Server.SpotInstanceTermination"
        instance.why = (code, f"{code}: Spot instance termination")
        self.end(instance)

    def get_console_output(self, given: Params) -> dict[str, Any]:
        instance = self.instances.get(given["InstanceId"])
        if instance is None:
            raise _not_found([given["InstanceId"]])
        said = b"" if instance.machine is None else instance.machine.console()
        return {"InstanceId": instance.id, "Output": base64.b64encode(said).decode()}

    def metadata(self, instance: Instance, path: str) -> bytes | None:
        identity = document(
            instance_id=instance.id,
            account=ACCOUNT,
            region=self.region.name,
            started=datetime.fromtimestamp(instance.launched_at, UTC),
            availabilityZone=instance.zone,
            imageId=str(instance.data.get("ImageId")),
            instanceType=instance.type,
        )
        match path:
            case "dynamic/instance-identity/document":
                return identity
            case "dynamic/instance-identity/rsa2048":
                return self.signer.signed(identity)
            case "meta-data/instance-id":
                return instance.id.encode()
            case "meta-data/spot/instance-action" if instance.notice_at is not None:
                at = datetime.fromtimestamp(instance.notice_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                return f'{{"action": "terminate", "time": "{at}"}}'.encode()
        return None

    # --- launch templates -------------------------------------------------------------------------

    def create_launch_template(self, given: Params) -> dict[str, Any]:
        return _once(self._template_calls, given, lambda: self._new_template(given))

    def create_launch_template_version(self, given: Params) -> dict[str, Any]:
        return _once(self._template_calls, given, lambda: self._new_version(given))

    def _new_template(self, given: Params) -> dict[str, Any]:
        name = given["LaunchTemplateName"]
        if name in self.templates:
            text = f"Launch template name already in use: {name}"
            raise ApiError("InvalidLaunchTemplateName.AlreadyExistsException", text)
        self.templates[name] = []
        self._new_version(given)
        return {"LaunchTemplate": {"LaunchTemplateName": name, "LatestVersionNumber": 1}}

    def _new_version(self, given: Params) -> dict[str, Any]:
        versions = self._template(given["LaunchTemplateName"])
        version = {
            "VersionNumber": len(versions) + 1,
            "VersionDescription": given.get("VersionDescription", ""),
            "LaunchTemplateName": given["LaunchTemplateName"],
            "LaunchTemplateData": given["LaunchTemplateData"],
        }
        versions.append(version)
        return {"LaunchTemplateVersion": version}

    def describe_launch_template_versions(self, given: Params) -> dict[str, Any]:
        versions = self._template(given["LaunchTemplateName"])
        if "$Latest" in given.get("Versions", ()):
            versions = versions[-1:]
        # Without the data: no caller reads it, and its blocks are named otherwise in an answer.
        shown = [{k: v for k, v in each.items() if k != "LaunchTemplateData"} for each in versions]
        return {"LaunchTemplateVersions": shown}

    def _template(self, name: str) -> list[dict[str, Any]]:
        if name not in self.templates:
            text = f"The specified launch template, with template name {name}, does not exist."
            raise ApiError("InvalidLaunchTemplateName.NotFoundException", text)
        return self.templates[name]

    def template_data(self, specification: Params) -> Params:
        versions = self._template(specification["LaunchTemplateName"])
        number = int(specification["Version"])
        if not 1 <= number <= len(versions):
            raise ApiError("InvalidLaunchTemplateId.VersionNotFound", f"There is no version {number}.")
        data: Params = versions[number - 1]["LaunchTemplateData"]
        return data

    # --- what was there before --------------------------------------------------------------------

    def describe_subnets(self, given: Params) -> dict[str, Any]:
        known = {each.id: each for each in self.region.subnets}
        for wanted in given.get("SubnetIds", ()):
            if wanted not in known:
                raise ApiError("InvalidSubnetID.NotFound", f"The subnet ID '{wanted}' does not exist")
        shown = [known[each] for each in given.get("SubnetIds", known)]
        return {
            "Subnets": [
                {"SubnetId": each.id, "AvailabilityZone": each.zone, "AvailableIpAddressCount": 250}
                for each in shown
            ]
        }

    def describe_images(self, given: Params) -> dict[str, Any]:
        for wanted in given.get("ImageIds", ()):
            if wanted not in self.region.images:
                raise ApiError("InvalidAMIID.NotFound", f"The image id '[{wanted}]' does not exist")
        return {
            "Images": [
                {
                    "ImageId": each,
                    "Architecture": self.region.images[each],
                    "RootDeviceName": "/dev/xvda",
                    "BlockDeviceMappings": [
                        {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": True}},
                        {"DeviceName": "/dev/sdb", "Ebs": {"DeleteOnTermination": False}},
                        {"DeviceName": "/dev/sdc", "VirtualName": "ephemeral0"},
                    ],
                    "Name": "fake-linux",
                    "State": "available",
                }
                for each in given.get("ImageIds", self.region.images)
            ]
        }

    def describe_security_groups(self, given: Params) -> dict[str, Any]:
        for wanted in given.get("GroupIds", ()):
            if wanted not in self.region.groups:
                raise ApiError("InvalidGroup.NotFound", f"The security group '{wanted}' does not exist")
        return {"SecurityGroups": [{"GroupId": each} for each in given.get("GroupIds", self.region.groups)]}


def _once(
    answered: dict[str, tuple[Params, dict[str, Any]]], given: Params, do: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Repeat an answer by its client token, as AWS documents it: a success is not done again."""
    token = given["ClientToken"]
    if token in answered:
        asked, answer = answered[token]
        if asked != given:
            text = "The client token was used with other parameters."
            raise ApiError("IdempotentParameterMismatch", text)
        return answer
    answer = do()
    answered[token] = (given, answer)
    return answer


def _snake(action: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in action).lstrip("_")


def _not_found(unknown: Sequence[str]) -> ApiError:
    return ApiError("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(unknown)}' do not exist")


def _matches(instance: Instance, filters: Sequence[Params]) -> bool:
    return all(_value(instance, each["Name"]) in each["Values"] for each in filters)


def _value(instance: Instance, name: str) -> str | None:
    if name.startswith("tag:"):
        return instance.tags.get(name.removeprefix("tag:"))
    known = {
        "instance-id": instance.id,
        "instance-state-name": instance.state,
        "state-reason-code": instance.why[0] if instance.why else None,
    }
    return known[name]


def _shown(instance: Instance) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.type,
        "InstanceLifecycle": "spot" if instance.spot else None,
        "State": {"Name": instance.state},
        "StateReason": {"Code": instance.why[0], "Message": instance.why[1]} if instance.why else None,
        "SubnetId": instance.subnet,
        "Placement": {"AvailabilityZone": instance.zone},
        "Tags": [{"Key": key, "Value": value} for key, value in instance.tags.items()],
    }


def machine_in(root: Path, *, metadata: str, sandboxed: bool) -> Callable[[str], Machine]:
    return lambda name: Machine(root / name, metadata=f"{metadata}/{name}", sandboxed=sandboxed)
