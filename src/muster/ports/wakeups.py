"""Wake-ups: hints that something changed. Losing one costs time, never correctness."""

from collections.abc import Sequence
from typing import Protocol


class Wakeups(Protocol):
    def notify(self, topic: str) -> None:
        """Wake all who wait on the topic now or are about to. Never blocks, never fails."""
        ...

    def listen(self, topics: Sequence[str]) -> "Listener":
        """Start listening. Notifications after this call are not missed by the next `wait`."""
        ...


class Listener(Protocol):
    async def wait(self, timeout: float) -> bool:
        """Wait for a topic. True: one was notified since `listen` or the last `wait`. False: time passed."""
        ...

    def close(self) -> None: ...


OPERATIONS = "operations"
"""An operation waits for a driver, or a driver has a place again: a replica may lease it."""
ROOM = "room"
"""Room under a cap or an idle node may have appeared."""
LINE = "line"
"""A queue moved up: an operation left its place, or a template or cap changed."""
HEALTH = "health"
"""A node's health may have changed."""
ENDED = "ended"
"""A machine has ended."""
JOBS = "jobs"
"""A job was seen, or moved on."""
ACCESS = "access"
"""A token, a pause, a cap or a template changed: what a replica remembers of them may be old."""
EVENTS = "events"
"""The event feed grew."""


def operation_topic(operation_id: str) -> str:
    """Name the topic for changes of an operation and of what it holds."""
    return f"operation/{operation_id}"


def driver_topic(operation_id: str) -> str:
    """Name the topic for changes of an operation that its own driver did not write."""
    return f"driver/{operation_id}"


def progress_topic(operation_id: str) -> str:
    """Name the topic for changes of an operation's own record: there is something new to show."""
    return f"progress/{operation_id}"


def command_topic(command_id: str) -> str:
    return f"command/{command_id}"


def node_topic(node_id: str) -> str:
    """Name the topic for changes that may give a node something else to do."""
    return f"node/{node_id}"
