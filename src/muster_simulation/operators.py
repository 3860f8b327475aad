"""The operator: applies templates, changes them, raises and lowers caps while everything runs.

Owns the templates' content over time. Writes go straight to the store, as a server that never fails would.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from muster.domain import node as nodes
from muster.domain.errors import Conflict, NotCancellable
from muster.domain.events import Event
from muster.domain.ids import NodeId, OperationId
from muster.domain.lifecycle import LIVE, Fact
from muster.domain.operation import OperationEvent
from muster.domain.reasons import Reason
from muster.domain.template import Reuse, TemplateSpec, UsageClass
from muster.operations.submission import request_cancel
from muster.ports.clock import Clock
from muster.ports.store import Store
from muster_simulation.invariants.judge import Judge
from muster_simulation.life import outside
from muster_simulation.trace import FaultCounts

HOUR = 3600.0
MEDDLING_MOST = 3.0
"""Seconds after the moment within which an operator acts."""
_MOMENTS = (str(Fact.ATTACHED), str(OperationEvent.COMMITTED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What an operator starts with, and how often something is changed."""

    templates: tuple[TemplateSpec, ...]
    total_cap: int
    changes: float = 0.0
    """Per hour."""
    meddling: float = 0.0
    """How often an operator ends a node or cancels a provision at the worst moment."""


class Operator:
    def __init__(
        self,
        site: Site,
        *,
        store: Store,
        judge: Judge,
        clock: Clock,
        random: Random,
        counts: FaultCounts,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.stopped = False
        self._site = site
        self._specs = {spec.name: spec for spec in site.templates}
        self._store = store
        self._judge = judge
        self._clock = clock
        self._random = random
        self._counts = counts
        self._cap = site.total_cap
        self._spawn = spawn

    async def set_up(self) -> None:
        await self._limit(self._site.total_cap)
        for spec in self._site.templates:
            await self._store.apply_template(spec, now=self._clock.now())

    async def change_things(self) -> None:
        while self._site.changes and not self.stopped:
            await asyncio.sleep(self._random.expovariate(self._site.changes / HOUR))
            if not self.stopped:
                await self._change()

    async def _change(self) -> None:
        name = self._random.choice(tuple(self._specs))
        spec = self._specs[name]
        match self._random.randrange(6):
            case 0 | 1:
                spec = replace(spec, boot_script=f"# {self._random.getrandbits(32):08x}")
            case 2:
                spec = replace(spec, min_idle=self._random.randint(0, min(3, spec.max_nodes)))
            case 3:
                spec = replace(
                    spec, max_nodes=max(spec.min_idle, 1, spec.max_nodes + self._random.choice((-2, 1, 2)))
                )
            case 4:
                spec = replace(spec, reuse=self._random.choice(tuple(Reuse)))
            case _:
                await self._limit(max(1, self._cap + self._random.choice((-2, 1, 3))))
                return
        self._counts.add("template changed")
        self._specs[name] = spec
        await self._store.apply_template(spec, now=self._clock.now())

    def saw(self, event: Event) -> None:
        """People act at the worst moment: a node ends just as it attached, a cancel meets the commit."""
        if self.stopped or not self._site.meddling or event.name not in _MOMENTS:
            return
        if self._random.random() < self._site.meddling:
            delay = self._random.random() ** 2 * MEDDLING_MOST
            outside(asyncio.get_running_loop().call_later, delay, self._meddle, event)

    def _meddle(self, event: Event) -> None:
        end = self._end_node if event.name == Fact.ATTACHED else self._cancel
        self._spawn(end(event.entity_id))

    async def _end_node(self, node_id: str) -> None:
        node = await self._store.node(NodeId(node_id))
        if node.state not in LIVE:
            return
        self._counts.add("operator: node ended")
        with suppress(Conflict):
            await self._store.apply(nodes.condemn(node, now=self._clock.now(), reason=Reason.OPERATOR))

    async def _cancel(self, operation_id: str) -> None:
        self._counts.add("operator: cancelled")
        with suppress(NotCancellable):
            await request_cancel(self._store, OperationId(operation_id), now=self._clock.now())

    async def _limit(self, cap: int) -> None:
        self._cap = cap
        # Raised for the judge before it is raised for the store, and never lowered: see LaunchRules.
        self._judge.launches.total_cap = max(cap, self._judge.launches.total_cap)
        self._judge.queues.total_cap = cap
        await self._store.limit_installation(cap, now=self._clock.now())

    async def close_down(self) -> None:
        """No more warm nodes, and no more runners for jobs."""
        self.stopped = True
        for spec in self._specs.values():
            if spec.min_idle or spec.kitted:
                calm = replace(spec, min_idle=0, retired=spec.kitted)
                await self._store.apply_template(calm, now=self._clock.now())


def draw_template(name: str, random: Random) -> TemplateSpec:
    """Short times, so that an hour holds many lives."""
    usage = random.choice(
        (
            (UsageClass.ON_DEMAND,),
            (UsageClass.ON_DEMAND,),
            (UsageClass.SPOT,),
            (UsageClass.SPOT, UsageClass.ON_DEMAND),
        )
    )
    most = random.randint(2, 10)
    return TemplateSpec(
        name=name,
        provider="simulated",
        resource_class=random.choice(("large", "large", "xlarge")),
        usage=usage,
        instance_types=random.choice((("*",), ("c*", "m*"), ("m*", "r*"))),
        reuse=random.choice((Reuse.SAME_OWNER, Reuse.SAME_OWNER, Reuse.ALWAYS, Reuse.NEVER)),
        max_nodes=most,
        min_idle=random.choice((0, 0, 1, min(2, most))),
        replacements=random.choice((0, 0, 1, 2)),
        provision_timeout=random.uniform(90.0, 300.0),
        attach_timeout=random.choice((None, random.uniform(15.0, 60.0))),
        max_runtime=random.uniform(120.0, 900.0),
        idle_timeout=random.uniform(60.0, 300.0),
        rescue_window=random.choice((0.0, 30.0, 120.0)),
    )
