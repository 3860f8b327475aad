"""Which scale sets this installation listens to: one standing duty for each template that names one."""

from collections import Counter
from collections.abc import Sequence

from muster.domain.ids import InstallationId
from muster.integrations.github.runners import RunnerSpec, Scope
from muster.integrations.github.scale_sets import SetSpec
from muster.integrations.github.set_directory import SetDirectory, spec_of
from muster.integrations.github.set_listener import SetListener
from muster.integrations.github.set_report import SetReport
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext, StandingDuty


class SetListeners:
    """Implements muster.ports.duties.StandingDuties."""

    def __init__(self, given: DutyContext, directory: SetDirectory) -> None:
        self._given = given
        self._directory = directory
        self._installation: InstallationId | None = None

    async def wanted(self) -> Sequence[StandingDuty]:
        if self._installation is None:
            self._installation = (await self._given.store.installation()).id
        specs: dict[tuple[Scope, str, str], tuple[str, SetSpec]] = {}
        for template in await self._given.store.templates():
            runner: RunnerSpec = TEMPLATE.of(template.spec)
            if runner.scale_set and not template.spec.retired and template.spec.runtime == "github":
                spec = spec_of(runner)
                # GitHub has one set of that name in a group: the first template has it.
                specs.setdefault((spec.scope, spec.group, spec.name.lower()), (template.name, spec))
        names = Counter(spec.name for _, spec in specs.values())
        return [
            self._duty(name, spec, spec.name if names[spec.name] == 1 else f"{spec.scope}/{spec.name}")
            for name, spec in specs.values()
        ]

    def _duty(self, template: str, spec: SetSpec, queue: str) -> StandingDuty:
        report = SetReport(
            jobs=self._given.jobs, clock=self._given.clock, template=template, spec=spec, queue=queue
        )
        installation = self._installation or ""
        listener = SetListener(self._given, self._directory, report, installation_id=installation)
        return StandingDuty(name=f"scale_set/{template}", content=(spec, queue), perform=listener.perform)
