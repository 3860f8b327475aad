"""Look up a template's last boots, at most twice a minute, so that a warm provision does not pay for it."""

from collections.abc import Callable, Sequence

from muster.domain import boot as boots
from muster.domain import deadlines
from muster.domain.boot import Boot, Learned
from muster.domain.deadlines import Deadline, Limits
from muster.domain.template import Template
from muster.ports.clock import Clock
from muster.ports.store import Store
from muster.single_flight import SingleFlight

REMEMBER = 30.0
REMEMBER_FEW = 5.0
"""The first few change the picture with each that comes."""
REMEMBERED_MOST = 256


class BootHistory:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._reads: SingleFlight[str, Sequence[Boot]] = SingleFlight()
        self._known: dict[tuple[str, int], tuple[float, Sequence[Boot]]] = {}

    async def boots(self, template: Template) -> Sequence[Boot]:
        key = (template.name, template.revision)
        now = self._clock.now()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        found = await self._reads.get(f"{template.name}/{template.revision}", lambda: self._store.boots(*key))
        if len(self._known) >= REMEMBERED_MOST:
            del self._known[next(iter(self._known))]
        few = len(found) < boots.LEAST_BOOTS
        self._known[key] = (now + (REMEMBER_FEW if few else REMEMBER), found)
        return found

    async def learned(self, template: Template) -> Learned | None:
        """Return the boot time for machines of unknown type: the longest that one of the types needs."""
        found = await self.by_type(template)
        return max(found.values(), key=lambda each: each.seconds, default=None)

    async def by_type(self, template: Template) -> dict[str, Learned]:
        ceiling = deadlines.max_boot(template.spec, self._limits)
        kinds = boots.by_type(await self.boots(template))
        learned = {kind: boots.learn(some, ceiling=ceiling) for kind, some in kinds.items()}
        return {kind: each for kind, each in learned.items() if each is not None}

    async def deadlines(
        self, template: Template, *, timeout: float | None = None
    ) -> Callable[[str], Deadline]:
        """Return what tells how long a machine of an instance type may take to boot. `timeout`: as asked."""
        learned = await self.by_type(template)
        return lambda instance_type: deadlines.resolve_boot(
            timeout=timeout,
            template=template.spec,
            limits=self._limits,
            learned=learned.get(instance_type),
        )
