"""The tags that mark machines as ours, and by which they are found again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.ports.provider import LaunchRequest

INSTALLATION = "muster:installation"
TOKEN = "muster:token"  # noqa: S105 — a name
LAUNCH = "muster:launch"
OPERATION = "muster:operation"
TEMPLATE = "muster:template"
NAME = "Name"


def of_launch(request: LaunchRequest) -> Mapping[str, str]:
    """Return the tags of a fleet and its machines."""
    return {
        **of_template(request),
        TOKEN: request.token,
        LAUNCH: request.launch_id,
        OPERATION: request.launch_id.rpartition(".")[0],
    }


def of_template(request: LaunchRequest) -> Mapping[str, str]:
    """Return the tags of what a launch template makes beside machines, without a launch."""
    return {
        NAME: f"muster-{request.template.name}",
        INSTALLATION: request.installation_id,
        TEMPLATE: request.template.name,
    }


def specification(kinds: Iterable[str], tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return tags in the form that AWS takes."""
    written = [{"Key": key, "Value": value} for key, value in tags.items() if value]
    return [{"ResourceType": kind, "Tags": written} for kind in kinds]


def read(tags: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in tags}
