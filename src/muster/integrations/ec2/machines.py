"""Translate AWS's answers into machines. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.domain.template import UsageClass
from muster.integrations.ec2 import tags
from muster.integrations.ec2.errors import ended_by
from muster.ports.provider import LaunchRequest, Machine, MachineState

STATES = {
    "pending": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "shutting-down": MachineState.STOPPING,
    "stopping": MachineState.STOPPING,
    "stopped": MachineState.STOPPING,
    "terminated": MachineState.GONE,
}
"""A stopped machine costs money and can start again: it isn't gone."""
ENDED = (MachineState.STOPPING, MachineState.GONE)
THERE = [name for name, state in STATES.items() if state is not MachineState.GONE]


def machines(page: Mapping[str, Any]) -> Iterator[Machine]:
    """Yield the machines of a page of DescribeInstances."""
    for reservation in page.get("Reservations", ()):
        for instance in reservation.get("Instances", ()):
            carried = tags.read(instance.get("Tags", ()))
            state = STATES.get(instance.get("State", {}).get("Name", ""), MachineState.PENDING)
            ended = (instance.get("StateReason") or {}) if state in ENDED else {}
            yield Machine(
                id=instance["InstanceId"],
                installation_id=carried.get(tags.INSTALLATION, ""),
                token=carried.get(tags.TOKEN, ""),
                instance_type=instance.get("InstanceType", ""),
                usage_class=_usage(instance.get("InstanceLifecycle")),
                state=state,
                why=_why(ended),
                reason=ended_by(str(ended.get("Code") or "")),
            )


def launched_machines(answer: Mapping[str, Any], asked: LaunchRequest) -> Iterator[Machine]:
    """Yield the machines of an answer to CreateFleet."""
    for group in answer.get("Instances", ()):
        for machine_id in group.get("InstanceIds", ()):
            yield Machine(
                id=machine_id,
                installation_id=asked.installation_id,
                token=asked.token,
                instance_type=group.get("InstanceType", ""),
                usage_class=_usage(group.get("Lifecycle")),
                state=MachineState.PENDING,
            )


def _why(reason: Mapping[str, Any]) -> str:
    """Return the reason's text with its code once: AWS begins most messages with it."""
    code, text = str(reason.get("Code") or ""), str(reason.get("Message") or "")
    return text if text.startswith(code) else f"{code}: {text}"


def _usage(lifecycle: str | None) -> UsageClass:
    return UsageClass.SPOT if lifecycle == "spot" else UsageClass.ON_DEMAND
