"""Register runners of scale sets: find the set by its name, and keep below GitHub's limit."""

from muster.integrations.github.actions_service import Gone, SetMissing
from muster.integrations.github.registration_limit import RegistrationLimit
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import RunnerSpec, Scope
from muster.integrations.github.scale_set_shapes import ScaleSet, SetRunner
from muster.integrations.github.scale_sets import ScaleSets, SetSpec
from muster.ports.clock import Clock

KNOWN_FOR = 300.0
"""Seconds for which a set's number is believed. One that vanished is noticed at once."""


def spec_of(runner: RunnerSpec) -> SetSpec:
    """Return the scale set that a template names."""
    return SetSpec(
        scope=Scope.named(runner.scope), name=runner.scale_set, group=runner.group, labels=runner.labels
    )


class SetDirectory:
    def __init__(
        self, sets: ScaleSets, registry: GitHubRegistry, clock: Clock, limit: RegistrationLimit
    ) -> None:
        self.sets = sets
        self.registry = registry
        self._clock = clock
        self.limit = limit
        self._known: dict[SetSpec, tuple[float, int]] = {}

    def keep(self, spec: SetSpec, found: ScaleSet) -> None:
        self._known[spec] = (self._clock.now() + KNOWN_FOR, found.id)

    def forget(self, spec: SetSpec) -> None:
        self._known.pop(spec, None)

    async def just_in_time(self, spec: SetSpec, name: str) -> str:
        """Register a runner of the set for one job; return its configuration, a secret.

        Raises SetMissing while there is no such set: its listener makes it.
        """
        await self.limit.take()
        set_id = await self._number(spec)
        try:
            return await self.sets.just_in_time(spec.scope, set_id, name=name)
        except (SetMissing, Gone) as error:
            self.forget(spec)
            raise SetMissing(f"cannot register the runner {name}: the scale set is gone") from error

    async def runner(self, spec: SetSpec, name: str) -> SetRunner | None:
        return await self.sets.runner(spec.scope, name)

    async def _number(self, spec: SetSpec) -> int:
        until, number = self._known.get(spec, (0.0, 0))
        if self._clock.now() < until:
            return number
        found = await self.sets.find(spec, await self.sets.group_id(spec))
        if found is None:
            raise SetMissing(
                f"cannot find the scale set {spec.name!r} of {spec.scope}: its listener makes it"
            )
        self.keep(spec, found)
        return found.id
