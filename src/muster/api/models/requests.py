"""What callers ask for: provisions, releases, runs, commands."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from muster.api.models.base import In, example
from muster.domain.command import Execution, Variable
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.requests import ProvisionRequest, ReleaseRequest, RunRequest
from muster.domain.template import UsageClass
from muster.domain.workflow import Workflow, default_label

Usage = Annotated[UsageClass, Field(strict=False)]
"""A word of an enum arrives as text."""
PROVISION_EXAMPLE = {"template": "ci", "count": 3, "run": "ci-42", "owner": "acme/shop", "max_runtime": 1800}
EXECUTION_EXAMPLE = {"argv": ["make", "test"], "env": {"CI": "1"}, "timeout": 600}


class WorkflowIn(In):
    """One attempt of a workflow run of GitHub Actions: whose jobs the nodes are for."""

    model_config = example({"repository": "acme/shop", "run_id": 123456789, "attempt": 1})

    repository: str
    run_id: int
    attempt: int
    label: str | None = None
    """What `runs-on` names; by default the run id and the attempt: 123456789-1."""

    def workflow(self) -> Workflow:
        label = default_label(self.run_id, self.attempt) if self.label is None else self.label
        return Workflow(repository=self.repository, run_id=self.run_id, attempt=self.attempt, label=label)


class ProvisionIn(In):
    """N nodes for a run, all or nothing. What is left out follows the template."""

    model_config = example(PROVISION_EXAMPLE)

    template: str
    count: int
    run: str
    owner: str = "default"
    resource_class: str | None = None
    usage: list[Usage] | None = None
    instance_types: list[str] | None = None
    max_runtime: float | None = None
    timeout: float | None = None
    queue_timeout: float = 0.0
    workflow: WorkflowIn | None = None
    """For templates of the runtime github."""

    def request(self) -> ProvisionRequest:
        return ProvisionRequest(
            template=self.template,
            count=self.count,
            run=self.run,
            owner=self.owner,
            resource_class=self.resource_class,
            usage=None if self.usage is None else tuple(self.usage),
            instance_types=None if self.instance_types is None else tuple(self.instance_types),
            max_runtime=self.max_runtime,
            timeout=self.timeout,
            queue_timeout=self.queue_timeout,
            workflow=None if self.workflow is None else self.workflow.workflow(),
        )


class ReleaseIn(In):
    """By operation (all of it, or the named assignments), or by run if it had one provision only."""

    model_config = example({"operation_id": "op-1hx2k9q0c7m3t8v5e1"})

    operation_id: str | None = None
    assignment_ids: list[str] | None = None
    run: str | None = None
    latest: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.operation_id is None) == (self.run is None):
            raise ValueError("name either an operation_id or a run")
        if self.assignment_ids is not None and self.operation_id is None:
            raise ValueError("assignment_ids need the operation_id that they belong to")
        if self.latest and self.run is None:
            raise ValueError("latest chooses among the provisions of a run; an operation_id needs none")
        return self

    def request(self, operation_id: str) -> ReleaseRequest:
        ids = self.assignment_ids
        return ReleaseRequest(
            operation_id=OperationId(operation_id),
            assignment_ids=None if ids is None else tuple(AssignmentId(each) for each in ids),
        )


class ExecutionIn(In):
    """What to execute. No shell is involved; the workspace is the working directory."""

    model_config = example(EXECUTION_EXAMPLE)

    argv: list[str]
    env: dict[str, str] = Field(default={})
    timeout: float | None = None
    archive: str | None = None
    """The id of an uploaded archive (PUT /blobs) to unpack into the workspace first."""
    collect: list[str] = Field(default=[])
    """Paths in the workspace to bring back; see GET /commands/{id}/artifact."""

    def execution(self) -> Execution:
        return Execution(
            argv=tuple(self.argv),
            env=tuple(Variable(name=name, value=value) for name, value in self.env.items()),
            timeout=self.timeout,
            archive=self.archive,
            collect=tuple(self.collect),
        )


class RunIn(In):
    """Provision, execute the same on every node, give back: one operation that outlives its caller."""

    model_config = example({"provision": PROVISION_EXAMPLE, "execution": EXECUTION_EXAMPLE})

    provision: ProvisionIn
    execution: ExecutionIn

    def request(self) -> RunRequest:
        return RunRequest(provision=self.provision.request(), execution=self.execution.execution())


class CommandsIn(In):
    """Execute on the nodes of a provision, named by its operation or by a run that has only one live."""

    model_config = example({"run": "ci-42", "execution": EXECUTION_EXAMPLE})

    operation_id: str | None = None
    run: str | None = None
    indexes: list[int] = Field(default=[], max_length=1000, description="On these alone; empty: on all.")
    execution: ExecutionIn

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.operation_id is None) == (self.run is None):
            raise ValueError("name either an operation_id or a run")
        return self
