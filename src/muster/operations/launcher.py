"""Call providers for launches: make, repeat, interpret. The only place that creates machines.

Repeats the identical call until it is answered; only an answer settles the launch. The same write adopts
the machines and settles the launch.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from muster.domain import launch as launches
from muster.domain.backoff import backoff
from muster.domain.deadlines import Deadline
from muster.domain.errors import ProviderError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.ids import InstallationId, NodeId, OperationId, launch_id, launch_token
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.node import Binding, Node
from muster.domain.reasons import Reason
from muster.domain.template import Template, UsageClass
from muster.operations.driven_lease import ANSWER_WITHIN, DrivenLease, prolonged
from muster.ports.bundle import Ports
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, NodeProvider

logger = logging.getLogger(__name__)

REPEAT_FIRST = 1.0
REPEAT_MOST = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    """What the machines of a launch become when they all came."""

    bindings: Sequence[Binding]
    """One per machine."""
    boot: Callable[[str], Deadline]
    """How long a machine of an instance type may take to boot."""
    accepts_fewer: bool = False
    """Fewer than asked for are welcome too."""


def planned(
    operation_id: OperationId,
    ordinal: int,
    *,
    installation_id: InstallationId,
    template: Template,
    resource_class: str,
    usage_class: UsageClass,
    instance_types: tuple[str, ...],
    count: int,
    now: float,
) -> Launch:
    name = launch_id(operation_id, ordinal)
    return Launch(
        id=name,
        operation_id=operation_id,
        token=launch_token(installation_id, name),
        template=template.name,
        revision=template.revision,
        provider=template.spec.provider,
        resource_class=resource_class,
        usage_class=usage_class,
        instance_types=instance_types,
        count=count,
        created_at=now,
    )


def condemned(node_id: str, launch: Launch, machine: Machine, *, now: float, reason: Reason) -> Node:
    """Build the record of a machine that exists but is not wanted."""
    node = _record(node_id, launch, machine, NodeState.TERMINATING, now=now)
    return replace(node, operation_id=launch.operation_id, reason=reason)


def _record(node_id: str, launch: Launch, machine: Machine, state: NodeState, *, now: float) -> Node:
    return Node(
        id=NodeId(node_id),
        template=launch.template,
        revision=launch.revision,
        provider=launch.provider,
        resource_class=launch.resource_class,
        usage_class=machine.usage_class,
        instance_type=machine.instance_type,
        machine_id=machine.id,
        launch_id=launch.id,
        state=state,
        created_at=now,
        entered_at=now,
    )


class Launcher:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def call(self, launch: Launch, driven: DrivenLease, adoption: AdoptionPlan) -> None:
        """Make one call, or one repeat. Returns when it is settled, or with `driven.retry_at` set."""
        now = self._ports.clock.now()
        provider = self._ports.providers[launch.provider]
        if now < driven.retry_at:
            return
        async with prolonged(self._ports.store, driven, until=now + provider.call_timeout + ANSWER_WITHIN):
            await self._call(provider, launch, driven, adoption)

    async def abandon(
        self, unwanted: Iterable[Launch], driven: DrivenLease, *, now: float, reason: Reason
    ) -> None:
        """Give up launches that were not called. Their room is free again."""
        for launch in unwanted:
            gone = launches.abandoned(launch, now=now, reason=reason)
            await self._ports.store.write_launch(launch, gone, fence=driven.fence)

    async def _call(
        self, provider: NodeProvider, launch: Launch, driven: DrivenLease, adoption: AdoptionPlan
    ) -> None:
        now = self._ports.clock.now()
        if driven.spent == launch.id:
            await self._look(provider, launch, driven, adoption)
            return
        request = await self._request(launch)
        calling = await self._ports.store.write_launch(
            launch, launches.calling(launch, now=now), fence=driven.fence
        )
        answer = await self._ask(provider, request, calling, driven)
        if answer is not None:
            await self._settle(calling, answer, driven, adoption)

    async def _look(
        self, provider: NodeProvider, launch: Launch, driven: DrivenLease, adoption: AdoptionPlan
    ) -> None:
        """Find the machines of a call whose answer is lost, once all of them must be visible."""
        now = self._ports.clock.now()
        driven.retry_at = now + 2 * REPEAT_FIRST
        try:
            async with asyncio.timeout(provider.call_timeout):
                machines = tuple(await provider.find(launch.token))
        except (ProviderError, TimeoutError):
            return
        if len(machines) >= launch.count:
            await self._settle(launch, LaunchAnswer(machines=machines), driven, adoption)
        elif not launches.may_surprise(
            launch,
            now=now,
            call_timeout=provider.call_timeout,
            visibility_window=provider.visibility_window,
        ):
            answer = LaunchAnswer(machines=machines, reason=Reason.PARTIAL_LAUNCH)
            await self._settle(launch, answer, driven, adoption)

    async def _request(self, launch: Launch) -> LaunchRequest:
        store = self._ports.store
        template = await store.template(launch.template, launch.revision)
        installation = await store.installation()
        return LaunchRequest(
            token=launch.token,
            launch_id=launch.id,
            installation_id=installation.id,
            template=template.spec,
            revision=launch.revision,
            resource_class=template.spec.size(launch.resource_class),
            usage_class=launch.usage_class,
            instance_types=launch.instance_types,
            count=launch.count,
        )

    async def _ask(
        self, provider: NodeProvider, request: LaunchRequest, launch: Launch, driven: DrivenLease
    ) -> LaunchAnswer | None:
        """Return the provider's answer; None if there is none yet, with the time of the next try set."""
        try:
            async with asyncio.timeout(provider.call_timeout):
                return await provider.launch(request)
        except Throttled as error:
            pause = error.retry_after
        except Refused as error:
            if launch.calls == 1:
                return LaunchAnswer(machines=(), reason=error.reason, message=str(error))
            known = launches.refused(launch, reason=error.reason, message=str(error))
            await self._ports.store.write_launch(launch, known, fence=driven.fence)
            return None
        except TokenSpent:
            driven.spent = launch.id
            return None
        except (Uncertain, TimeoutError, ProviderError) as error:
            logger.info("launch unanswered", extra={"launch_id": launch.id, "error": repr(error)})
            pause = backoff(launch.calls, first=REPEAT_FIRST, most=REPEAT_MOST)
        driven.retry_at = self._ports.clock.now() + pause * (1 + self._ports.ids.jitter() / 4)
        return None

    async def _settle(
        self, launch: Launch, answer: LaunchAnswer, driven: DrivenLease, adoption: AdoptionPlan
    ) -> None:
        now = self._ports.clock.now()
        got = len(answer.machines)
        complete = got >= launch.count
        if complete or (adoption.accepts_fewer and got):
            wanted, surplus, reason = answer.machines[: launch.count], answer.machines[launch.count :], None
        else:
            wanted, surplus = (), answer.machines
            reason = answer.reason or (Reason.PARTIAL_LAUNCH if got else Reason.CAPACITY)
        nodes = [
            self._created(launch, machine, binding, adoption, now=now)
            for machine, binding in zip(wanted, adoption.bindings, strict=False)
        ]
        nodes += [
            condemned(self._ports.ids.new("node"), launch, machine, now=now, reason=Reason.PARTIAL_LAUNCH)
            for machine in surplus
        ]
        message = "" if reason is None else answer.message or f"the provider gave {got} of {launch.count}"
        after = launches.settled(launch, now=now, adopted=len(nodes), reason=reason, message=message)
        await self._ports.store.settle(launch, after, nodes, fence=driven.fence, now=now)
        driven.retry_at = 0.0  # answered: there is nothing to wait for

    def _created(
        self, launch: Launch, machine: Machine, binding: Binding, adoption: AdoptionPlan, *, now: float
    ) -> Node:
        boot = adoption.boot(machine.instance_type)
        return replace(
            _record(self._ports.ids.new("node"), launch, machine, NodeState.CREATED, now=now),
            deadline_at=now + boot.seconds,
            deadline_source=boot.source,
            operation_id=binding.operation_id,
            assignment_id=binding.assignment_id,
            run=binding.run,
            owner=binding.owner,
        )
