"""What an engine shows of one installation: containers and journal, put together into machines.

Owns the one place that says which state a machine is in. A machine is its journal entry; its container is
proof:

    fate `ended`                       gone, as the fate says, whatever is left of a container
    container                          the container's state
    no container, fate `made`          gone: it could not start, was removed by hand, or is forgotten
    no container, no fate              pending: its container is still to be made
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.domain.reasons import Reason
from muster.domain.template import UsageClass
from muster.integrations.docker import answers, names
from muster.integrations.docker.api import Engine, filters
from muster.integrations.docker.journal import Fate, Launch, failure_of, fate_of, launch_of, volumes_in
from muster.integrations.docker.names import MachineName
from muster.ports.provider import Machine, MachineState

REMOVED = "its container is not there any more: it was removed by hand, or a killed engine lost it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    id: str
    machine: MachineName
    word: str
    """The engine's own word for its state."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> MachineState:
        return answers.state_of(self.word)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at one engine."""

    engine: str
    installation_id: str
    containers: Mapping[str, Container]
    """By machine id."""
    launches: Mapping[str, Launch]
    """By name."""
    fates: Mapping[str, Fate]
    """By machine id."""
    failures: Mapping[str, Fate] = field(default_factory=dict)
    """By machine id."""

    def machine_ids(self) -> Sequence[str]:
        """Of all machines that are known here, in a stable order."""
        planned = [machine.id for launch in self.launches.values() for machine in launch.on(self.engine)]
        return sorted({*planned, *self.containers}, key=_order)

    def machine(self, machine_id: str) -> Machine | None:
        found = names.parsed(machine_id)
        if found is None:
            return None
        container, launch = self.containers.get(machine_id), self.launches.get(found.launch)
        fate = self.fates.get(machine_id)
        if container is not None and (fate is None or not fate.ended):
            return self._shown(machine_id, container)
        if launch is None or found not in launch.on(self.engine):
            return None
        end = self.failures.get(machine_id, fate)
        return Machine(
            id=machine_id,
            installation_id=launch.installation_id,
            token=launch.token,
            instance_type=launch.instance_type,
            usage_class=launch.usage_class,
            state=MachineState.PENDING if end is None else MachineState.GONE,
            why="" if end is None else end.why or REMOVED,
            reason=Reason.MACHINE_GONE if end is None else end.reason,
        )

    def _shown(self, machine_id: str, container: Container) -> Machine:
        usage = container.labels.get(names.USAGE, "")
        return Machine(
            id=machine_id,
            installation_id=self.installation_id,
            token=container.labels.get(names.TOKEN, ""),
            instance_type=container.labels.get(names.TYPE, ""),
            usage_class=UsageClass(usage) if usage in tuple(UsageClass) else UsageClass.ON_DEMAND,
            state=container.state,
        )

    def machines(self) -> Sequence[Machine]:
        found = (self.machine(machine_id) for machine_id in self.machine_ids())
        return [machine for machine in found if machine is not None]

    def living(self) -> Sequence[Machine]:
        return [machine for machine in self.machines() if machine.state is not MachineState.GONE]


async def look(engine: Engine, installation_id: str) -> View:
    """Raises EngineError or NoAnswer."""
    ours = filters(label=[f"{names.INSTALLATION}={installation_id}"])
    containers, volumes = await asyncio.gather(
        engine.get("/containers/json", params={"all": "true", "filters": ours}),
        engine.get("/volumes", params={"filters": ours}),
    )
    shown = [
        container_of(each, installation_id) for each in (containers if isinstance(containers, list) else ())
    ]
    listed = volumes_in(volumes)
    launches = [each for each in map(launch_of, listed) if each and each.installation_id == installation_id]
    fates = [each for each in map(fate_of, listed) if each]
    failures = [each for each in map(failure_of, listed) if each]
    return View(
        engine=engine.name,
        installation_id=installation_id,
        containers={each.machine.id: each for each in shown if each and each.machine.engine == engine.name},
        launches={each.name: each for each in launches},
        fates={each.machine_id: each for each in fates},
        failures={each.machine_id: each for each in failures},
    )


def container_of(found: Any, installation_id: str) -> Container | None:
    """One container of a list; None if it is not ours: its labels must say so, and its name must fit them."""
    labels = answers.labels_of(found)
    machine = names.parsed(labels.get(names.MACHINE))
    if machine is None or labels.get(names.INSTALLATION) != installation_id:
        return None
    identity, called, word = (found.get(key) for key in ("Id", "Names", "State"))
    if not isinstance(identity, str) or not isinstance(called, list):
        return None
    if not any(isinstance(each, str) and each.lstrip("/") == machine.container for each in called):
        return None
    return Container(id=identity, machine=machine, word=word if isinstance(word, str) else "", labels=labels)


def _order(machine_id: str) -> tuple[str, int]:
    found = names.parsed(machine_id)
    return ("", 0) if found is None else (found.launch, found.ordinal)
