"""Histories made by hand, event by event, and the judge that checks them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.domain import events, serialization
from muster.domain.events import Draft, Entity, Event
from muster.domain.ids import AssignmentId, EventId, LaunchId, NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.template import Template, TemplateSpec, UsageClass, applied
from muster_simulation.cloud import Entry, Ledger
from muster_simulation.invariants import Judge
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.truth import Presence, Truth
from muster_simulation.trace import Trace

UNBOUND = dict.fromkeys(("operation_id", "assignment_id", "run", "owner", "attached_at"))


@dataclass
class NodeView:
    attached: AssignmentId | None = None
    ended: dict[AssignmentId, None] = field(default_factory=dict)
    poll: float = 0.0
    disturbed_until: float = 0.0
    losses: list[float] = field(default_factory=list)
    wanted: AssignmentId | None = None
    told_to: str = "stay"


@dataclass
class CraftedHistory:
    """One template with a cap of 2, and time that the test moves. The judge sees each event as it is made."""

    now: float = 1000.0
    ledger: Ledger = field(default_factory=Ledger)
    agents: dict[str, NodeView] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    truths: dict[str, Truth] = field(default_factory=dict)
    presence: Presence = field(default_factory=Presence)
    bugs: dict[str, str] | None = None
    spec: TemplateSpec = field(
        default_factory=lambda: TemplateSpec(name="ci", provider="simulated", max_nodes=2)
    )

    def __post_init__(self) -> None:
        context = Context(
            installation_id="inst-1",
            now=lambda: self.now,
            ledger=self.ledger,
            agents=self.agents,
            truths=self.truths,
            presence=self.presence,
            bugs=self.bugs,
        )
        self.judge = Judge(context, Trace(), lambda _: None)
        self.judge.launches.total_cap = 3
        self._template: Template | None = None
        self.template(self.spec)

    def template(self, spec: TemplateSpec) -> None:
        before, self._template = self._template, applied(self._template, spec, now=self.now)
        self.see(events.of_template(before, self._template))

    @property
    def broken(self) -> str | None:
        return self.judge.broken.name if self.judge.broken else None

    def see(self, draft: Draft) -> None:
        self.versions[draft.entity_id] = draft.version
        self.judge.event(
            Event(
                id=EventId("ev"),
                at=self.now,
                entity=draft.entity,
                entity_id=draft.entity_id,
                version=draft.version,
                name=draft.name,
                changes=draft.changes,
                detail=draft.detail,
            )
        )

    def write(self, entity: Entity, entity_id: str, name: str, **changes: Any) -> None:
        version = self.versions[entity_id] + 1
        stored: Mapping[str, Any] = changes if entity is Entity.OPERATION else {"version": version, **changes}
        self.see(Draft(entity=entity, entity_id=entity_id, version=version, name=name, changes=stored))

    def node(self, name: str, **changes: Any) -> None:
        self.write(Entity.NODE, "node-1", name, **changes)

    def operation(self, name: str, **changes: Any) -> None:
        self.write(Entity.OPERATION, "op-1", name, **changes)

    def has_operation(self, operation_id: str = "op-1", **fields: Any) -> None:
        request = ProvisionRequest(template="ci", count=1, run="run-1", owner="me")
        operation = Operation(
            id=OperationId(operation_id),
            kind=Kind.PROVISION,
            request=request,
            template="ci",
            run="run-1",
            created_at=self.now,
            updated_at=self.now,
            deadline_at=self.now + 600.0,
            deadline_source="default",
            **fields,
        )
        self.see(events.of_submission(operation))

    def has_release(self, operation_id: str, request: ReleaseRequest) -> None:
        operation = Operation(
            id=OperationId(operation_id),
            kind=Kind.RELEASE,
            request=request,
            template=None,
            run="run-1",
            created_at=self.now,
            updated_at=self.now,
            deadline_at=self.now + 180.0,
            deadline_source="default",
        )
        self.see(events.of_submission(operation))

    def has_launch(self, launch_id: str = "op-1.1", *, called: bool = True) -> None:
        launch = Launch(
            id=LaunchId(launch_id),
            operation_id=OperationId("op-1"),
            token=f"inst-1/{launch_id}",
            template="ci",
            revision=1,
            provider="simulated",
            resource_class="large",
            usage_class=UsageClass.ON_DEMAND,
            instance_types=("*",),
            count=1,
            created_at=self.now,
        )
        self.see(events.of_launch(None, launch))
        if called:
            self.write(Entity.LAUNCH, launch_id, "calling", state="calling", called_at=self.now)

    def has_machine(self, machine_id: str = "i-1", *, installation: str = "inst-1") -> Entry:
        entry = Entry(
            machine_id=machine_id,
            installation_id=installation,
            token="inst-1/op-1.1",
            template="ci",
            instance_type="m7.large",
            usage_class=UsageClass.ON_DEMAND,
            sent_at=self.now,
            created_at=self.now,
            running_at=self.now,
            visible_at=self.now,
        )
        self.ledger.add(entry)
        self.agents[machine_id] = NodeView()
        self.judge.made(entry)
        return entry

    def has_node(self, node_id: str = "node-1", **fields: Any) -> None:
        values: dict[str, Any] = {
            "machine_id": "i-1",
            "launch_id": LaunchId("op-1.1"),
            "state": NodeState.CREATED,
            "operation_id": OperationId("op-1"),
            "assignment_id": AssignmentId("as-1"),
            "run": "run-1",
            "owner": "me",
            "booted_at": self.now,
            **fields,
        }
        node = Node(
            id=NodeId(node_id),
            template="ci",
            revision=1,
            provider="simulated",
            resource_class="large",
            usage_class=UsageClass.ON_DEMAND,
            instance_type="m7.large",
            created_at=self.now,
            entered_at=self.now,
            **values,
        )
        self.see(
            Draft(
                entity=Entity.NODE,
                entity_id=node_id,
                version=1,
                name="adopt",
                changes=serialization.fields_to_plain(node),
            )
        )


def attach(history: CraftedHistory) -> None:
    history.agents["i-1"].attached = AssignmentId("as-1")
    history.node("attached", attached_at=history.now)


def commit(history: CraftedHistory) -> None:
    attach(history)
    members = [{"node_id": "node-1", "assignment_id": "as-1"}]
    history.operation("committed", committed_at=history.now, members=members)
