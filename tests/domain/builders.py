"""Valid records in one line each. Whatever a test doesn't name is set so that the record could be real."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import settings

from muster.domain.checks import NAME_MAX
from muster.domain.command import Command, CommandState, Execution
from muster.domain.deadlines import Limits
from muster.domain.ids import AssignmentId, CommandId, LaunchId, NodeId, OperationId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.progress import Progress
from muster.domain.provision_decisions import Situation
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, RefillRequest, ReleaseRequest, RunRequest
from muster.domain.template import Template, TemplateSpec, UsageClass

NOW = 100_000.0
LIMITS = Limits()
SMALLEST = 2.0**-16
"""Exactly representable beside NOW, so sums with it have no rounding."""
OPERATION = OperationId("op-1")
REVISION = 3
RELEASE = ReleaseRequest(operation_id=OPERATION)
RUN = RunRequest(
    provision=ProvisionRequest(template="web", count=2, run="run-1"),
    execution=Execution(argv=("make", "test")),
)
REFILL = RefillRequest(template="web", revision=REVISION, count=2)

modest = settings(max_examples=100, deadline=None, database=None)

_BOUND = (NodeState.CREATED, NodeState.CLAIMED, NodeState.RUNNING, NodeState.RELEASING)
_UP = (NodeState.IDLE, NodeState.CLAIMED, NodeState.RUNNING, NodeState.RELEASING)
_TIMED = (*_BOUND, NodeState.IDLE, NodeState.FAILED)


def kind(value: object) -> str:
    """The id of a test's row whose value is too odd to be written out."""
    short = isinstance(value, str) and value.isidentifier() and len(value) < NAME_MAX
    return str(value) if short else getattr(value, "__name__", "value")


def node(state: NodeState = NodeState.CREATED, n: int = 1, **fields: Any) -> Node:
    """A node as it looks on entering a state: created ones starting, running ones attached."""
    given: dict[str, Any] = {
        "id": NodeId(f"node-{n}"),
        "template": "web",
        "revision": REVISION,
        "provider": "simulated",
        "resource_class": "large",
        "usage_class": UsageClass.ON_DEMAND,
        "instance_type": "m5.large",
        "machine_id": f"machine-{n}",
        "launch_id": LaunchId(f"{OPERATION}.1"),
        "state": state,
        "version": 5,
        "created_at": NOW - 50,
        "entered_at": NOW - 10,
    }
    if state in _TIMED:
        given |= {"deadline_at": NOW + 1000, "deadline_source": "default"}
    if state in _BOUND:
        given |= {
            "operation_id": OPERATION,
            "assignment_id": AssignmentId(f"as-{n}"),
            "run": "run-1",
            "owner": "alice",
        }
    if state in _UP:
        given |= {"boot_id": f"boot-{n}", "joined_at": NOW - 45, "booted_at": NOW - 40}
    if state is NodeState.RUNNING:
        given["attached_at"] = NOW - 20
    if state in (NodeState.FAILED, NodeState.TERMINATING, NodeState.TERMINATED):
        given["reason"] = Reason.BOOT_TIMEOUT
    return Node(**(given | fields))


def attached(n: int = 1, state: NodeState = NodeState.CREATED, **fields: Any) -> Node:
    """Held by the provision and ready for its commit."""
    ready = {"joined_at": NOW - 45, "booted_at": NOW - 40, "attached_at": NOW - 5}
    return node(state, n, **(ready | fields))


def claimed(n: int = 1, **fields: Any) -> Node:
    """From the pool: its launch was a refill's."""
    return node(NodeState.CLAIMED, n, **({"launch_id": LaunchId("op-refill.1")} | fields))


def idle(n: int = 1, **fields: Any) -> Node:
    return node(NodeState.IDLE, n, **fields)


def launch(state: LaunchState = LaunchState.PLANNED, ordinal: int = 1, **fields: Any) -> Launch:
    given: dict[str, Any] = {
        "id": LaunchId(f"{OPERATION}.{ordinal}"),
        "operation_id": OPERATION,
        "token": f"inst/{OPERATION}.{ordinal}",
        "template": "web",
        "revision": REVISION,
        "provider": "simulated",
        "resource_class": "large",
        "usage_class": UsageClass.ON_DEMAND,
        "instance_types": ("*",),
        "count": 2,
        "state": state,
        "created_at": NOW - 60,
    }
    if state is not LaunchState.PLANNED:
        given |= {"called_at": NOW - 55, "calls": 1, "version": 2}
    if state in (LaunchState.SETTLED, LaunchState.ABANDONED):
        given |= {"closed_at": NOW - 50, "version": 3}
    if state is LaunchState.SETTLED:
        given["adopted"] = 2
    return Launch(**(given | fields))


def spec(**fields: Any) -> TemplateSpec:
    return TemplateSpec(**({"name": "web", "provider": "simulated"} | fields))


def template(*, revision: int = REVISION, **fields: Any) -> Template:
    return Template(spec=spec(**fields), revision=revision, applied_at=NOW - 1000)


def provision(**fields: Any) -> ProvisionRequest:
    given: dict[str, Any] = {"template": "web", "count": 2, "run": "run-1", "owner": "alice"}
    return ProvisionRequest(**(given | fields))


def operation(**fields: Any) -> Operation:
    request = fields.get("request", provision())
    kinds = {
        ProvisionRequest: Kind.PROVISION,
        ReleaseRequest: Kind.RELEASE,
        RefillRequest: Kind.REFILL,
        RunRequest: Kind.RUN,
    }
    given: dict[str, Any] = {
        "id": OPERATION,
        "kind": kinds[type(request)],
        "request": request,
        "template": "web",
        "run": "run-1",
        "status": Status.RUNNING,
        "version": 7,
        "created_at": NOW - 100,
        "updated_at": NOW - 1,
        "deadline_at": NOW + 500,
        "deadline_source": "default",
        "lease_owner": "replica-1",
        "lease_until": NOW + 60,
        "epoch": 4,
    }
    return Operation(**(given | fields))


def command(state: CommandState = CommandState.PENDING, n: int = 0, **fields: Any) -> Command:
    """The n-th command of a run on three nodes; an exited one ended well."""
    given: dict[str, Any] = {
        "id": CommandId(f"op-run.{n}"),
        "operation_id": OPERATION,
        "assignment_id": AssignmentId(f"as-{n}"),
        "node_id": NodeId(f"node-{n}"),
        "ordinal": n,
        "count": 3,
        "run": "run-1",
        "execution": Execution(argv=("make", "test")),
        "state": state,
        "version": 4,
        "created_at": NOW - 30,
    }
    if state is not CommandState.PENDING:
        given["started_at"] = NOW - 25
    if state in (CommandState.EXITED, CommandState.LOST):
        given["ended_at"] = NOW - 5
    if state is CommandState.EXITED:
        given["exit_code"] = 0
    return Command(**(given | fields))


def progress(step: int = 1, percent: float = 0.0, **fields: Any) -> Progress:
    given: dict[str, Any] = {
        "step": step,
        "total_steps": 5,
        "phase": f"phase-{step}",
        "label": f"Step {step}",
    }
    return Progress(**(given | {"percent": percent} | fields))


def situation(
    nodes: Sequence[Node] = (),
    launches: Sequence[Launch] = (),
    *,
    op: Operation | None = None,
    seen: Mapping[str, float] | None = None,
    spec: Mapping[str, Any] | None = None,
    ahead: int = 0,
    **request: Any,
) -> Situation:
    """A provision of three nodes; its nodes were seen just now unless told otherwise."""
    asked = provision(**({"count": 3} | request))
    return Situation(
        operation=op or operation(request=asked),
        request=asked,
        template=template(**(spec or {})),
        nodes=nodes,
        launches=launches,
        seen={NodeId(key): at for key, at in (seen or {each.id: NOW for each in nodes}).items()},
        ahead=ahead,
        now=NOW,
        limits=LIMITS,
    )
