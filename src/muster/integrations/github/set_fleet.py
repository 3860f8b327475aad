"""The runners of one scale set: read from the store, asked for, prolonged and released.

Every runner is one provision of the core, under a key with a number. A replica that takes over reads the
same runners, and asks for the same next number.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from muster.domain import node as nodes
from muster.domain.backoff import backoff
from muster.domain.errors import Conflict, IdempotencyMismatch, IllegalTransition, NotFound
from muster.domain.ids import AssignmentId, NodeId, OperationId
from muster.domain.lifecycle import HOLDING, PRESENT, NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest, ReleaseRequest
from muster.domain.run_decisions import RESERVED
from muster.domain.template import Template
from muster.integrations.github.requests import SET_RUNNER, SetRunnerRequest, key_of, run_of
from muster.integrations.github.runners import runner_name
from muster.integrations.github.set_scaling import Room, SetRunnerState, Stage
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext
from muster.ports.paging import every_node, provisions

PATIENCE = 3600.0
"""Seconds for which a runner's provision waits for room under the caps."""
RECENT = 100
"""Newest provisions that are looked at for the next number and for failures in a row."""
AT_ONCE = 16
PAUSE, PAUSE_MOST = 5.0, 300.0
"""Seconds before another try after provisions that failed: at first, and at most."""
MINUTE = 60.0
LATELY_MOST = 1000
OVERLAP = 5.0
_OF_SET = tuple(state for state in PRESENT if state is not NodeState.IDLE)
_UNFINISHED = (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the runner of an assignment is, or was."""

    node_id: NodeId
    operation_id: OperationId
    warm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A set's runners at one moment."""

    runners: tuple[SetRunnerState, ...]
    nodes: dict[str, Node]
    """By the name of the runner."""
    places: dict[AssignmentId, Place]
    """Of the runners that were handed over lately."""
    next_number: int
    room: Room
    warm: int
    """Idle machines of the template."""
    failures: int
    """Provisions that failed in a row, up to now."""
    try_at: float
    """When to try again after these."""
    why: str
    """Of the last failure."""


class SetFleet:
    def __init__(self, given: DutyContext, template: str, installation_id: str) -> None:
        self._given = given
        self._store = given.store
        self._name = template
        self._installation = installation_id
        self._asked: dict[OperationId, float] = {}
        """When runners of all sets were asked for lately: only a shortcut."""

    async def read(self, template: Template) -> Fleet:
        """Read operations before nodes: what is handed over in between is seen at least once."""
        run = run_of(self._name)
        unfinished = [each async for each in provisions(self._store, run=run, statuses=_UNFINISHED)]
        recent = (
            await self._store.operations(
                kind=Kind.PROVISION, statuses=tuple(Status), run=run, after=None, limit=RECENT
            )
        ).items
        found = [node async for node in every_node(self._store, states=_OF_SET, template=self._name)]
        ours = [node for node in found if node.run == run and node.state in HOLDING]
        ending = [node for node in found if node.run == run and node.state is NodeState.RELEASING]
        runners = (*self._runners(unfinished, ours), *map(self._ended, ending))
        failures, try_at, why = _failures(recent)
        return Fleet(
            runners=runners,
            nodes={self._called(node): node for node in ours},
            places={
                member.assignment_id: Place(
                    node_id=member.node_id, operation_id=each.id, warm=bool(each.warm)
                )
                for each in recent
                for member in each.members
            },
            next_number=1 + max((_number(each) for each in recent), default=0),
            room=await self._room(template, found, failing=failures > 0),
            warm=await self._store.count_nodes(state=NodeState.IDLE, template=self._name),
            failures=failures,
            try_at=try_at,
            why=why,
        )

    def _runners(self, unfinished: Sequence[Operation], ours: Sequence[Node]) -> tuple[SetRunnerState, ...]:
        bound = {node.operation_id: node for node in ours}
        known = {operation.id for operation in unfinished}
        starting = [
            SetRunnerState(
                operation_id=each.id,
                number=_number(each),
                stage=Stage.QUEUED if each.status is Status.QUEUED else Stage.STARTING,
                since=each.created_at,
                name=self._called(bound[each.id]) if each.id in bound else "",
            )
            for each in unfinished
        ]
        serving = [
            SetRunnerState(
                operation_id=node.operation_id,
                number=0,
                stage=Stage.SERVING,
                since=node.entered_at,
                name=self._called(node),
            )
            for node in ours
            if node.state is NodeState.RUNNING and node.operation_id and node.operation_id not in known
        ]
        return (*starting, *serving)

    def _ended(self, node: Node) -> SetRunnerState:
        return SetRunnerState(
            operation_id=node.operation_id or OperationId(""),
            number=0,
            stage=Stage.SERVING,
            since=node.entered_at,
            ended_at=node.entered_at,
        )

    def _called(self, node: Node) -> str:
        return runner_name(self._installation, node.assignment_id) if node.assignment_id else ""

    async def _room(self, template: Template, found: Sequence[Node], *, failing: bool) -> Room:
        run, usage = run_of(self._name), await self._store.usage(self._name)
        total_cap = (await self._store.installation()).max_nodes
        paused = await self._given.access.paused(self._name)
        return Room(
            cap=template.spec.max_nodes,
            used=usage.template,
            total_cap=total_cap,
            total_used=usage.total,
            others=sum(_elsewhere(node, run, pools=template.spec.pools) for node in found),
            ours=sum(node.run == run and node.state in HOLDING for node in found),
            new_most=0 if paused else 1 if failing else None,
        )

    # --- acts -------------------------------------------------------------------------------------

    async def ask(self, template: Template, numbers: Iterable[int]) -> None:
        """Ask for runners under these numbers. Who asks for a number again gets what was made first."""
        runner = TEMPLATE.of(template.spec)
        waiting = list(numbers)
        while waiting:
            turn, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
            asked = (self._ask(runner.scale_set, runner.scope, number) for number in turn)
            for end in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(end, BaseException):
                    raise end

    async def _ask(self, scale_set: str, owner: str, number: int) -> None:
        request = ProvisionRequest(
            template=self._name,
            count=1,
            run=run_of(self._name),
            owner=owner,
            queue_timeout=PATIENCE,
            tables={SET_RUNNER.name: SetRunnerRequest(set=scale_set, number=number)},
        )
        # The number may have been used for a set of another name: the next look finds a later one.
        with suppress(IdempotencyMismatch):
            await self._given.desk.provision(request, key=key_of(self._name, number), ours=True)

    async def release(self, operation_id: OperationId, why: str) -> None:
        """Give a runner's node back, or cancel its provision."""
        with suppress(Conflict, NotFound):  # it ended by itself
            await self._given.desk.release(
                ReleaseRequest(operation_id=operation_id), key=f"{RESERVED}{operation_id}/{why}", ours=True
            )

    async def prolong(self, node: Node, *, until: float) -> None:
        """Let a node live until its job has had its time. A node that moved on is left alone."""
        if node.state is not NodeState.RUNNING or node.deadline_at is None or until <= node.deadline_at:
            return
        now = self._given.clock.now()
        with suppress(Conflict, IllegalTransition, NotFound):
            change = nodes.extend(node, now=now, deadline_at=until, source="job", detail="its job started")
            await self._store.apply(change)

    async def asked_lately(self) -> int:
        """Return how many runners all scale sets were given in the last minute.

        Reads what came since the last look, and a little of what came before: replicas' clocks differ.
        """
        now, seen = self._given.clock.now(), 0
        since = max(now - MINUTE, max(self._asked.values(), default=0.0) - OVERLAP)
        async for operation in provisions(self._store, run=None):
            seen += 1
            if operation.created_at < since or seen > LATELY_MOST:
                break
            if SET_RUNNER.name in getattr(operation.request, "tables", {}):
                self._asked[operation.id] = operation.created_at
        self._asked = {each: at for each, at in self._asked.items() if at >= now - MINUTE}
        return len(self._asked)


def _number(operation: Operation) -> int:
    request = operation.request
    found = SET_RUNNER.of(request) if isinstance(request, ProvisionRequest) else None
    return 0 if found is None else found.number


def _elsewhere(node: Node, run: str, *, pools: bool) -> bool:
    """Return whether no runner of the set can have the machine now."""
    if node.run == run and node.state in HOLDING:
        return False
    if node.state is NodeState.RELEASING:
        return not (pools and node.run == run)
    return node.run is not None or node.state in (NodeState.FAILED, NodeState.TERMINATING)


def _failures(recent: Sequence[Operation]) -> tuple[int, float, str]:
    """Return how many of the newest provisions that ended failed in a row, when to try again, and why."""
    failed: list[Operation] = []
    for each in recent:
        if each.status is Status.FAILED:
            failed.append(each)
        elif each.ended and each.status is Status.SUCCEEDED:
            break
    if not failed:
        return 0, 0.0, ""
    last = max(failed, key=lambda each: each.updated_at)
    pause = backoff(len(failed) - 1, first=PAUSE, most=PAUSE_MOST)
    return len(failed), last.updated_at + pause, last.verdict.message if last.verdict else ""
