"""Ends that engines tell by events: what is told, and when."""

from collections.abc import Callable, Mapping, Sequence

from muster.domain.template import UsageClass
from muster.integrations.docker import names
from muster.integrations.docker.looks import Looks
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.view import REMOVED
from muster.integrations.docker.watcher import MOMENT, Watcher
from muster.ports.provider import Machine, MachineState

MACHINE = MachineName(engine="big", launch=names.launch_name("inst", "token"), ordinal=0).id
STOPPED = "exit code 143 (it was told to end)"


class Clock:
    """Time that passes by sleeping alone. Something may happen while it passes."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.meanwhile()


def event(action: str) -> Mapping[str, object]:
    return {"Action": action, "Actor": {"Attributes": {names.MACHINE: MACHINE}}}


class Engine:
    """What one container's engine shows."""

    def __init__(self) -> None:
        self.why = STOPPED

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        found = Machine(
            id=MACHINE,
            installation_id="inst",
            token="token",
            instance_type="container.small",
            usage_class=UsageClass.ON_DEMAND,
            state=MachineState.GONE,
            why=self.why,
        )
        return dict.fromkeys(machine_ids, found)


async def test_an_end_that_a_removal_follows_is_told_as_the_removal_and_at_once() -> None:
    clock, engine = Clock(), Engine()
    watcher = Watcher({}, "inst", Looks({}, "inst"), clock)

    def remove() -> None:
        engine.why = REMOVED
        watcher._note(event("remove"))

    clock.meanwhile = remove
    watcher._note(event("die"))
    (told,) = await watcher.ended(engine.describe)
    assert told.why == REMOVED
    assert clock.time < 1000.0 + MOMENT


async def test_an_end_that_no_removal_follows_is_told_as_it_was_after_a_moment() -> None:
    clock = Clock()
    watcher = Watcher({}, "inst", Looks({}, "inst"), clock)
    watcher._note(event("die"))
    (told,) = await watcher.ended(Engine().describe)
    assert told.why == STOPPED
    assert 1000.0 + MOMENT <= clock.time <= 1001.0 + MOMENT
