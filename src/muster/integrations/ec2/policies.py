"""The AWS policies of server and nodes, to paste: no more rights than they need. Pure.

Rights are tied to this installation's tag where AWS allows that. So a server can end its own machines alone.
"""

from collections.abc import Sequence
from typing import Any

from muster.aws import partition
from muster.domain.template import TemplateSpec
from muster.integrations.ec2 import tags
from muster.integrations.ec2.tables import TEMPLATE

Policy = dict[str, Any]
_VERSION = "2012-10-17"
_LOOKS = (
    "ec2:DescribeImages",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "servicequotas:GetServiceQuota",
)
_MADE_FROM = (
    "image",
    "key-pair",
    "launch-template",
    "network-interface",
    "security-group",
    "snapshot",
    "spot-instances-request",
    "subnet",
    "volume",
)
_TAGGED = ("fleet", "instance", "launch-template", "network-interface", "volume")
_LINKED = ("ec2fleet.amazonaws.com", "spot.amazonaws.com")


def for_server(
    templates: Sequence[TemplateSpec], *, installation_id: str, region: str, account: str = ""
) -> Policy:
    """Return the server's policy. `installation_id` empty: any installation. `account` empty: any account."""
    mine = installation_id or "*"
    statements = [
        _allowed("Look", _LOOKS, ["*"]),
        _allowed("MakeFromThese", ("ec2:CreateFleet", "ec2:RunInstances"), _arns(region, _MADE_FROM)),
        _allowed(
            "MakeOurOwn",
            ("ec2:CreateFleet", "ec2:RunInstances"),
            _arns(region, ("fleet", "instance")),
            _tagged("aws:RequestTag", mine),
        ),
        _allowed(
            "DescribeOurMachinesOnce",
            ("ec2:CreateLaunchTemplate",),
            _arns(region, ("launch-template",)),
            _tagged("aws:RequestTag", mine),
        ),
        _allowed(
            "KeepOurOwn",
            ("ec2:CreateLaunchTemplateVersion", "ec2:GetConsoleOutput", "ec2:TerminateInstances"),
            _arns(region, ("instance", "launch-template")),
            _tagged("aws:ResourceTag", mine),
        ),
        _allowed(
            "TagWhatIsMade",
            ("ec2:CreateTags",),
            _arns(region, _TAGGED),
            {"StringEquals": {"ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"]}},
        ),
        _allowed(
            "FirstFleetOfAnAccount",
            ("iam:CreateServiceLinkedRole",),
            ["*"],
            {"StringEquals": {"iam:AWSServiceName": list(_LINKED)}},
        ),
    ]
    given = [role(each, region=region, account=account) for each in profiles(templates)]
    if given:
        services = ["ec2.amazonaws.com", *(["ec2.amazonaws.com.cn"] if partition(region) == "aws-cn" else [])]
        passed = {"StringEquals": {"iam:PassedToService": services}}
        statements.append(_allowed("GiveProfiles", ("iam:PassRole",), given, passed))
    return {"Version": _VERSION, "Statement": statements}


def profiles(templates: Sequence[TemplateSpec]) -> list[str]:
    """Return the instance profiles that templates name, each once."""
    of_ec2 = [each for each in templates if TEMPLATE.name in each.tables]
    named = (TEMPLATE.of(each).instance_profile for each in of_ec2)
    return list(dict.fromkeys(filter(None, named)))


def role(profile: str, *, region: str, account: str) -> str:
    """Return the role of an instance profile, which has the same name where the console made both."""
    if profile.startswith("arn:"):
        return profile.replace(":instance-profile/", ":role/", 1)
    return f"arn:{partition(region)}:iam::{account or '*'}:role/{profile}"


def for_nodes() -> Policy:
    """Return the nodes' policy, without rights: a node ends itself by shutting down."""
    denied = {"Sid": "NodesNeedNoRights", "Effect": "Deny", "Action": "*", "Resource": "*"}
    return {"Version": _VERSION, "Statement": [denied]}


def _allowed(
    name: str, actions: Sequence[str], resources: Sequence[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "Sid": name,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": list(resources),
    }
    return statement if condition is None else {**statement, "Condition": condition}


def _arns(region: str, kinds: Sequence[str]) -> list[str]:
    return [f"arn:{partition(region)}:ec2:{region}:*:{kind}/*" for kind in kinds]


def _tagged(key: str, value: str) -> dict[str, Any]:
    return {"StringLike" if value == "*" else "StringEquals": {f"{key}/{tags.INSTALLATION}": value}}
