"""Where nodes come from. A provider is slow, eventually consistent, and can't be fenced.

The launch row carries the truth; this port only says what a provider did, didn't do, or may have done.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

from muster.domain.ids import LaunchId
from muster.domain.reasons import Reason
from muster.domain.serialization import to_plain
from muster.domain.template import ResourceClass, TemplateSpec, UsageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything that a call says. Built from the stored launch alone, so a repeat is identical."""

    token: str
    launch_id: LaunchId
    installation_id: str
    template: TemplateSpec
    revision: int
    resource_class: ResourceClass
    usage_class: UsageClass
    instance_types: tuple[str, ...]
    count: int

    @property
    def fingerprint(self) -> str:
        """Return a hash of what its machines are made from. The same token may not come with another one."""
        made_from = replace(self, template=self.template.machine)
        return hashlib.sha256(json.dumps(to_plain(made_from), sort_keys=True).encode()).hexdigest()


class MachineState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Its provider can't say at present: one of its parts, such as a host, can't be asked. Not gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    id: str
    installation_id: str
    token: str
    """The launch token it was tagged with."""
    instance_type: str
    usage_class: UsageClass
    state: MachineState
    why: str = ""
    """Why it isn't there any more, or soon won't be, in the provider's words, if it says so."""
    reason: Reason = Reason.MACHINE_GONE
    """The same in our word, one of `reasons.ENDINGS`. Means nothing of a machine that is there."""

    @classmethod
    def unknown(cls, machine_id: str, installation_id: str, why: str) -> Self:
        """Return a machine of which nothing is known: its host, say, can't be asked."""
        return cls(
            id=machine_id,
            installation_id=installation_id,
            token="",
            instance_type="",
            usage_class=UsageClass.ON_DEMAND,
            state=MachineState.UNKNOWN,
            why=why,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAnswer:
    """The machines made, possibly fewer than asked for, and then why. Final for its token; `throttled` means
    that another launch may be given what this one wasn't."""

    machines: tuple[Machine, ...]
    reason: Reason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetRequirement:
    """What a template wants, and this server doesn't have."""

    field: str
    """Of the template."""
    why: str


class NodeProvider(Protocol):
    name: str
    visibility_window: float
    """Seconds for which a machine that exists may be missing from `find`, `list` and `describe`."""
    call_timeout: float
    """Seconds after which a call without an answer counts as Uncertain."""
    makes_way: frozenset[Reason]
    """Refusals that the end of other machines of this installation would undo, whatever template they are of:
    all its machines share what was lacking."""

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """Make `count` machines, tagged with token and installation, in one call.

        Idempotent by token: the same request again makes nothing new and gives the same answer.
        Raises Throttled (nothing made; later), Refused (nothing made; don't repeat), TokenSpent (the token
        was used with other parameters: it happened), Uncertain (unknown: repeat, then find).
        """
        ...

    async def find(self, token: str) -> Sequence[Machine]:
        """Return the machines of one launch that are visible now and not gone.

        Fewer than k proves nothing inside the visibility window. Raises Throttled or Uncertain.
        """
        ...

    def list(self) -> AsyncIterator[Machine]:
        """Yield every visible machine tagged with this installation that is not gone, in a stable order.

        Raises Throttled or Uncertain at any point of the iteration: a partial listing proves nothing.
        """
        ...

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        """Return what is known of these machines. A missing key means "not found".

        "Not found" means gone only if the machine was seen before or its launch is older than the window.
        Raises Throttled or Uncertain.
        """
        ...

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        """Return the last lines of a machine's console, at most so many, not redacted. The caller redacts
        them.

        None: this provider has no consoles, or nothing of this machine, or not yet. The lines may be minutes
        old. A machine that is gone still has a console for as long as the provider keeps it. Raises Throttled
        or Uncertain.
        """
        ...

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        """Ask for their end. Accepting is not being gone. Unknown ids are no error. Idempotent.
        Raises Throttled or Uncertain; some may have been accepted."""
        ...


class EndingsSource(Protocol):
    name: str
    """The provider's."""

    async def ended(self) -> Sequence[Machine]:
        """Wait until machines are gone, and return them: each once, to a caller that keeps calling.

        Only a provider that knows at once implements this. It saves time and is not needed for correctness:
        the duty `vanished` finds the same machines later. Raises Throttled or Uncertain.
        """
        ...
