"""What a store tells its process of each commit, right after it.

A store calls its hook once per commit, with every event that the commit appended. The hook runs on the hot
path: it only notes what it heard, and does its work elsewhere. A process that dies loses what it had noted.
So no promise depends on a hook.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.domain.command import Command
from muster.domain.events import Draft
from muster.domain.ids import OperationId
from muster.domain.launch import Launch
from muster.domain.node import Node
from muster.domain.operation import Operation

Record = Node | Operation | Launch | Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One event as it was appended, and the operations it concerns beyond what the event itself says."""

    draft: Draft
    operation_ids: tuple[OperationId, ...] = ()
    by: OperationId | None = None
    """The operation whose driver wrote it, under its fence."""
    record: Record | None = None
    """What the event's entity is from now on. None: the event is about something else."""


AfterCommit = Callable[[Sequence[Written]], None]
