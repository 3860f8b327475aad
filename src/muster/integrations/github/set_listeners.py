"""Which scale sets this installation listens to: one standing duty for each template that names one."""

from collections.abc import Sequence

from muster.domain.ids import InstallationId
from muster.integrations.github.runners import RunnerSpec
from muster.integrations.github.scale_sets import SetSpec
from muster.integrations.github.set_directory import SetDirectory, spec_of
from muster.integrations.github.set_listener import SetListener
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext, StandingDuty


class SetListeners:
    """Implements muster.ports.duties.StandingDuties."""

    def __init__(self, given: DutyContext, directory: SetDirectory) -> None:
        self._given = given
        self._directory = directory
        self._installation: InstallationId | None = None

    async def wanted(self) -> Sequence[StandingDuty]:
        found: dict[SetSpec, StandingDuty] = {}
        for template in await self._given.store.templates():
            runner: RunnerSpec = TEMPLATE.of(template.spec)
            if runner.scale_set and not template.spec.retired and template.spec.runtime == "github":
                spec = spec_of(runner)
                found.setdefault(spec, await self._duty(template.name, spec))
        return list(found.values())

    async def _duty(self, template: str, spec: SetSpec) -> StandingDuty:
        if self._installation is None:
            self._installation = (await self._given.store.installation()).id
        listener = SetListener(self._given, self._directory, template, spec, self._installation)
        return StandingDuty(name=f"scale_set/{template}", content=spec, perform=listener.perform)
