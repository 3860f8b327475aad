"""Accept requests, store an operation for each, and answer questions about it.

An acknowledged operation is durable. The accepting replica leases it in the same write, so it starts at
once. If the replica dies, another one takes the lease over.
"""

from contextlib import suppress
from dataclasses import replace

from muster.domain import deadlines, progress_view
from muster.domain.deadlines import Deadline
from muster.domain.errors import (
    Ambiguous,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    Throttled,
    Uncertain,
)
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import HOLDING
from muster.domain.node import Node
from muster.domain.operation import Fence, Kind, Operation, Status
from muster.domain.progress_view import Why
from muster.domain.release_decisions import is_back
from muster.domain.requests import (
    ClusterDeleteRequest,
    ProvisionRequest,
    RefillRequest,
    ReleaseRequest,
    Request,
    RunRequest,
)
from muster.domain.run_decisions import RERUN
from muster.domain.settings import Settings
from muster.domain.template import Template
from muster.operations.concurrency import concurrently
from muster.operations.driver import Driver
from muster.operations.provision import ProvisionHandler
from muster.operations.submission import Submitter, request_cancel
from muster.operations.templates import unmet_requirement
from muster.ports.bundle import Ports
from muster.ports.paging import provisions
from muster.ports.store import Pool, if_found

RUN_LIST = 1000
"""Provisions of one run that are told apart; who has more must name one, or take the newest."""
_OF_USE = (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED)
NODES_MOST = 200
"""Of one operation, in one answer."""


class OperationDesk:
    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        owner: str,
        driver: Driver,
        provisions: ProvisionHandler,
    ) -> None:
        self._ports = ports
        self._store = ports.store
        self._settings = settings
        self._driver = driver
        self._submitter = Submitter(ports, settings, owner, driver)
        self._provisions = provisions
        self._boot_history = provisions.boot_history

    async def provision(
        self,
        request: ProvisionRequest,
        *,
        key: str | None = None,
        fence: Fence | None = None,
        ours: bool = False,
        actor: str = "",
    ) -> Operation:
        """Submit a provision. `ours`: Muster itself asks, with a reserved key.

        `fence`: another operation asks, as long as its lease holds. Raises LeaseLost if it doesn't.
        """
        request = self._whole(request)
        first = await self._submitter.answered(key, Kind.PROVISION, request, ours=ours or fence is not None)
        if first is None and request.tables and not ours:
            first = await self._made_for_rerun(request)
        if first is not None:
            return first
        template = await self._known_template(request)
        await self._check_runtime(request, template)
        deadline = await self._provision_deadline(request, template)
        return await self._submit(
            Kind.PROVISION,
            request,
            deadline,
            key=key,
            run=request.run,
            fence=fence,
            actor=actor,
            queue_cap=None if ours or fence is not None else self._settings.limits.queued_per_owner,
        )

    def _whole(self, request: ProvisionRequest) -> ProvisionRequest:
        """Return the request with every table as it is stored. Raises InvalidRequest."""
        found = {part.name: part.whole(request) for part in self._ports.request_parts}
        for name in request.tables:
            if name not in found:
                rule = f"is no table that this server knows: it knows {', '.join(sorted(found)) or 'none'}"
                raise InvalidRequest(name, "…", rule)
        return replace(request, tables=found) if found else request

    async def _made_for_rerun(self, request: ProvisionRequest) -> Operation | None:
        """Return the provision that this attempt got before its own step asked for the same; None: none is
        usable.

        A provision that is being submitted at this moment is not seen.
        """
        async for made in provisions(self._store, run=request.run, statuses=_OF_USE):
            unasked = (made.idempotency_key or "").startswith(RERUN) and made.request == request
            if unasked and made.cancel_requested_at is None and await self._serves(made):
                self._driver.take(made)
                return made
        return None

    async def _serves(self, provision: Operation) -> bool:
        if not provision.ended:
            return True
        view = await self._store.view(provision.id)
        return any(node.state in HOLDING for node in view.nodes)

    async def _known_template(self, request: ProvisionRequest) -> Template:
        template = await self._store.template(request.template)
        template.spec.check_in_use()
        if template.spec.enrols:
            rule = "its nodes are apps that enrol themselves: start one with an enrolment token instead"
            raise InvalidRequest("template", template.name, rule)
        if template.spec.clusters:
            rule = "it makes clusters, not nodes: ask for one with `muster clusters create`"
            raise InvalidRequest("template", template.name, rule)
        lacks = unmet_requirement(self._ports, template.spec)
        if lacks is not None:
            raise InvalidRequest("template", template.name, lacks.why)
        return template

    async def _check_runtime(self, request: ProvisionRequest, template: Template) -> None:
        """Check that the runtime could attach the nodes, so that nothing starts in vain."""
        spec = template.spec
        runtime = self._ports.runtimes.get(spec.runtime)
        if runtime is not None:
            with suppress(Throttled, Uncertain):  # the operation looks again, while it has time
                await runtime.check(request, spec)
        for part in self._ports.request_parts:
            part.check(request, spec)

    async def _provision_deadline(self, request: ProvisionRequest, template: Template) -> Deadline:
        return deadlines.for_provision(
            timeout=request.timeout,
            queue_timeout=request.queue_timeout,
            template=template.spec,
            limits=self._settings.limits,
            learned=await self._boot_history.learned(template),
        )

    async def release(
        self,
        request: ReleaseRequest,
        *,
        key: str | None = None,
        fence: Fence | None = None,
        ours: bool = False,
        actor: str = "",
    ) -> Operation:
        first = await self._submitter.answered(key, Kind.RELEASE, request, ours=ours or fence is not None)
        if first is not None:
            return first
        target = await self._store.operation(request.operation_id)
        if target.kind is Kind.RUN:
            rule = f"a run releases its own nodes: stop it with `muster operations cancel {target.id}`"
            raise InvalidRequest("operation_id", target.id, rule)
        if target.kind is not Kind.PROVISION:
            raise InvalidRequest("operation_id", target.id, f"must be a provision, not a {target.kind}")
        known = {member.assignment_id for member in target.members}
        for assignment in request.assignment_ids or ():
            if assignment not in known:
                raise NotFound(f"assignment of {target.id}", assignment)
        if fence is None and not ours and target.ended and target.members:
            request = replace(request, already=is_back(request, (await self._store.view(target.id)).nodes))
        deadline = deadlines.for_operation(Kind.RELEASE, template=None, limits=self._settings.limits)
        return await self._submit(
            Kind.RELEASE, request, deadline, key=key, run=target.run, fence=fence, actor=actor
        )

    async def release_run(
        self,
        run: str,
        *,
        latest: bool = False,
        owner: str | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> Operation:
        """Release by the caller's own run id, which must have had one provision; `latest` takes the newest.

        So a late release of an earlier attempt can't hit a later one. `owner`: see only this owner's runs.
        """
        first = await self._submitter.answered(key, Kind.RELEASE, None)
        if first is not None:
            if first.run != run:
                raise IdempotencyMismatch(first.idempotency_key or "", first.id)
            return first
        found = await self._of_run(run, owner, most=1 if latest else RUN_LIST)
        if not found:
            raise NotFound("a provision of run", run)
        if len(found) > 1:
            raise Ambiguous(run, tuple(found))
        return await self.release(ReleaseRequest(operation_id=found[0]), key=key, actor=actor)

    async def _of_run(self, run: str, owner: str | None, *, most: int) -> list[OperationId]:
        found: list[OperationId] = []
        async for operation in provisions(self._store, run=run):
            request = operation.request
            if owner is None or (isinstance(request, ProvisionRequest) and request.owner == owner):
                found.append(operation.id)
            if len(found) == most:
                break
        return found

    async def run(self, request: RunRequest, *, key: str | None = None, actor: str = "") -> Operation:
        """Submit a run: provision, execute, release.

        Its time covers the provision, the longest run and the release, unless the caller named a timeout.
        """
        request = replace(request, provision=self._whole(request.provision))
        first = await self._submitter.answered(key, Kind.RUN, request)
        if first is not None:
            return first
        template = await self._known_template(request.provision)
        provision = await self._provision_deadline(request.provision, template)
        deadline = deadlines.for_run(
            provision,
            max_runtime=request.provision.max_runtime or template.spec.max_runtime,
            limits=self._settings.limits,
        )
        return await self._submit(
            Kind.RUN,
            request,
            deadline,
            key=key,
            run=request.provision.run,
            actor=actor,
            queue_cap=self._settings.limits.queued_per_owner,
        )

    async def refill(self, request: RefillRequest, pool: Pool) -> Operation:
        """Submit a refill for the pool controller. Raises Conflict if the pool's row moved since
        it was read."""
        template = await self._store.template(request.template)
        deadline = deadlines.for_operation(
            Kind.REFILL,
            template=template.spec,
            limits=self._settings.limits,
            learned=await self._boot_history.learned(template),
        )
        return await self._submit(Kind.REFILL, request, deadline, key=None, run=None, pool=pool)

    async def cancel(self, operation_id: OperationId, *, actor: str = "") -> Operation:
        return await request_cancel(self._store, operation_id, now=self._ports.clock.now(), actor=actor)

    async def why(self, operation_id: OperationId) -> Why:
        """Return what the operation waits for, since when and until when."""
        view = await self._store.view(operation_id)
        if view.operation.kind is not Kind.PROVISION:
            return progress_view.why_other(view.operation)
        return progress_view.why_provision(await self._provisions.situation(view))

    async def nodes(self, operation_id: OperationId) -> list[Node]:
        """Return the nodes that the operation works with, handed over or shows, as they are now.

        Some of them may serve another run by now.
        """
        view = await self._store.view(operation_id)
        operation, bound = view.operation, {node.id: node for node in view.nodes}
        members = [member.node_id for member in operation.members]
        shown = [NodeId(part.id) for part in operation.progress.parts] if operation.progress else []
        others = [each for each in dict.fromkeys([*members, *shown]) if each not in bound][:NODES_MOST]
        found = await concurrently(if_found(self._store.node(node_id)) for node_id in others)
        return [*list(bound.values())[:NODES_MOST], *(node for node in found if node is not None)]

    async def _submit(
        self,
        kind: Kind,
        request: Request,
        deadline: Deadline,
        *,
        key: str | None,
        run: str | None,
        pool: Pool | None = None,
        fence: Fence | None = None,
        queue_cap: int | None = None,
        actor: str = "",
    ) -> Operation:
        operation = self._submitter.new(
            kind, request, deadline, template=_template(request), key=key, run=run
        )
        write = self._store.submit(operation, pool=pool, fence=fence, queue_cap=queue_cap, actor=actor)
        return await self._submitter.submit(operation, write)


def _template(request: Request) -> str | None:
    match request:
        case ReleaseRequest() | ClusterDeleteRequest():
            return None
        case RunRequest():
            return request.provision.template
        case _:
            return request.template
