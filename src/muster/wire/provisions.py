"""Asking for nodes, giving them back, and runs that do both."""

from typing import TYPE_CHECKING, Self

from muster.discovery import installed
from muster.domain import requests as domain
from muster.domain.errors import InvalidRequest
from muster.domain.ids import AssignmentId, OperationId
from muster.domain.template import UsageClass
from muster.wire.base import Shape, convert
from muster.wire.commands import EXECUTION_EXAMPLE, Execution
from muster.wire.tables import given_tables, tables_of

PROVISION_EXAMPLE = {"template": "ci", "count": 3, "run": "ci-42", "owner": "acme/shop", "max_runtime": 1800}


if TYPE_CHECKING:
    Tables = Shape
else:
    Tables = tables_of("RequestTables", installed().request_tables.values())


class ProvisionRequest(Tables):
    """N nodes for a run, all or nothing. What is left out follows the template."""

    EXAMPLE = PROVISION_EXAMPLE

    template: str
    count: int
    run: str
    owner: str = "default"
    resource_class: str | None = None
    usage: tuple[UsageClass, ...] | None = None
    instance_types: tuple[str, ...] | None = None
    max_runtime: float | None = None
    timeout: float | None = None
    queue_timeout: float = 0.0
    hold_on_failure: float | None = None
    """Seconds for which a node that failed, or whose command failed, is kept for a look. At most a day."""

    @classmethod
    def of(cls, request: domain.ProvisionRequest) -> Self:
        return convert(cls, request, **request.tables)

    def request(self) -> domain.ProvisionRequest:
        return convert(domain.ProvisionRequest, self, tables=given_tables(self, installed().request_tables))


class ReleaseRequest(Shape):
    """By operation (all of it, or the named assignments), or by run if it had one provision only."""

    EXAMPLE = {"operation_id": "op-1hx2k9q0c7m3t8v5e1"}

    operation_id: str | None = None
    assignment_ids: tuple[str, ...] | None = None
    run: str | None = None
    latest: bool = False

    def __post_init__(self) -> None:
        if (self.operation_id is None) == (self.run is None):
            raise InvalidRequest("operation_id", self.operation_id, "name either an operation_id or a run")
        if self.assignment_ids is not None and self.operation_id is None:
            rule = "needs the operation_id that the assignments belong to"
            raise InvalidRequest("assignment_ids", self.assignment_ids, rule)
        if self.latest and self.run is None:
            rule = "chooses among the provisions of a run; an operation_id needs none"
            raise InvalidRequest("latest", self.latest, rule)

    def request(self, operation_id: str) -> domain.ReleaseRequest:
        ids = self.assignment_ids
        return domain.ReleaseRequest(
            operation_id=OperationId(operation_id),
            assignment_ids=None if ids is None else tuple(AssignmentId(each) for each in ids),
        )


class RunRequest(Shape):
    """Provision, execute the same on every node, give back: one operation that outlives its caller."""

    EXAMPLE = {"provision": PROVISION_EXAMPLE, "execution": EXECUTION_EXAMPLE}

    provision: ProvisionRequest
    execution: Execution

    def request(self) -> domain.RunRequest:
        return domain.RunRequest(provision=self.provision.request(), execution=self.execution.execution())
