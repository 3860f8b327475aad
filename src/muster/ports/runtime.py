"""What nodes of a runtime do for a run, where that takes more than their agent knows.

The server makes a kit for each assignment: a small program with all that it needs inside, secrets too. The
agent runs it while the node is attached, and knows nothing else of it.
"""

from dataclasses import dataclass, field
from typing import Protocol

from muster.domain.node import Node
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    program: str = field(repr=False)
    """Python for the interpreter that runs the agent. It says something when it is ready, and lives for as
    long as the node serves. Holds secrets: it goes to its one node, and nowhere else."""


class NodeRuntime(Protocol):
    """Every method raises Throttled (later), Refused (asking again won't help) or Uncertain."""

    async def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Check whether nodes for this request could attach, as far as can be known before there are any.

        Asked before every claim and launch, so a repeat must be cheap. Also raises InvalidRequest.
        """
        ...

    def boot_script(self, spec: TemplateSpec) -> str:
        """Return what a node of the template executes at boot: the operator's script and what the runtime
        needs."""
        ...

    async def kit(self, node: Node, request: ProvisionRequest, spec: TemplateSpec) -> Kit:
        """Return a fresh kit for the node's assignment. Every earlier kit stops working.

        So a lost reply, or a reply that another process read, does no harm.
        """
        ...

    async def attached(
        self, node: Node, request: ProvisionRequest, spec: TemplateSpec, *, ended: bool = False
    ) -> bool:
        """Return whether the node truly serves its assignment, by another source than the node itself.

        `ended`: also true if the node served it and its program ended well.
        """
        ...

    async def withdraw(self, node: Node, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Make the node unreachable under its assignment. Idempotent."""
        ...
