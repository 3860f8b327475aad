"""The kinds of id. Values come from the `Ids` port; equal ids mean the same thing for ever."""

from typing import NewType

InstallationId = NewType("InstallationId", str)
NodeId = NewType("NodeId", str)
OperationId = NewType("OperationId", str)
LaunchId = NewType("LaunchId", str)
AssignmentId = NewType("AssignmentId", str)
EventId = NewType("EventId", str)
CommandId = NewType("CommandId", str)
ClusterId = NewType("ClusterId", str)
JobId = NewType("JobId", str)


def launch_id(operation_id: OperationId, ordinal: int) -> LaunchId:
    """Return the id of a launch: operation and ordinal, so that a resumed operation finds it again."""
    return LaunchId(f"{operation_id}.{ordinal}")


def operation_of(launch: LaunchId | None) -> str:
    """Return the operation that a launch belongs to; empty without one."""
    return (launch or "").rpartition(".")[0]


def launch_token(installation_id: InstallationId, launch: LaunchId) -> str:
    """Return the idempotency token for the provider: derived, never drawn, so a repeat is the same call."""
    return f"{installation_id}/{launch}"
