"""One replica of the control plane, composed from its ports. Names no adapter."""

import asyncio
from collections.abc import Sequence

from muster.controllers.arrivals import Arrivals
from muster.controllers.auditor import Auditor
from muster.controllers.boot_watch import BootWatch
from muster.controllers.cluster_orphans import ClusterOrphans
from muster.controllers.command_timeouts import CommandTimeouts
from muster.controllers.commands import ForsakenCommands
from muster.controllers.deadlines import Sweep
from muster.controllers.departures import Departures
from muster.controllers.diagnosis import Collector
from muster.controllers.duties import Duties, Duty
from muster.controllers.endings import EndingsListener
from muster.controllers.hand_overs import HandOvers
from muster.controllers.launches import ForsakenLaunches
from muster.controllers.lost import Lost
from muster.controllers.orphans import Orphans
from muster.controllers.overdue import OverdueOperations
from muster.controllers.pool import PoolKeeper
from muster.controllers.probing import Probing
from muster.controllers.pruner import Pruner
from muster.controllers.reaper import Reaper
from muster.controllers.status import StatusKeeper
from muster.controllers.vanished import Vanished
from muster.domain.operation import Kind
from muster.domain.settings import Settings
from muster.enrolment.enroller import Enrolment
from muster.operations.applying import TemplateDesk
from muster.operations.cluster_create import ClusterCreation
from muster.operations.cluster_delete import ClusterDeletion
from muster.operations.cluster_desk import ClusterDesk
from muster.operations.cluster_undo import Undoing
from muster.operations.cluster_working import ClusterWorking
from muster.operations.commanding import Commander
from muster.operations.desk import FrontDesk
from muster.operations.driver import Driver
from muster.operations.failsafe import Failsafe
from muster.operations.launching import Launcher
from muster.operations.learning import Learning
from muster.operations.operating import OperatorDesk
from muster.operations.provision import Provision
from muster.operations.refill import Refill
from muster.operations.release import Releasing
from muster.operations.run import Running
from muster.operations.silence import Silences
from muster.operations.watching import Watching
from muster.ports.bundle import Ports
from muster.ports.duties import DutyContext
from muster.ports.wakeups import ENDED, HEALTH

__all__ = ["ControlPlane", "Ports"]


class ControlPlane:
    """`owner` names this replica in leases: unique among replicas, and new after every start. `hosts` are the
    names by which machines reach it."""

    def __init__(
        self, ports: Ports, *, owner: str, settings: Settings | None = None, hosts: Sequence[str] = ()
    ) -> None:
        settings = settings or Settings()
        self.owner = owner
        launcher = Launcher(ports)
        watching = Watching(ports.store, ports.clock, settings.limits)
        self.learning = Learning(ports.store, ports.clock, settings.limits)
        provisions = Provision(ports, settings, launcher, watching, self.learning)
        self.commander = Commander(ports)
        self.silences = Silences(ports, settings, watching)
        self.operator = OperatorDesk(ports)
        self.templates = TemplateDesk(ports)
        runs = Running(ports, settings, self.commander, watching, self.silences)
        working = ClusterWorking(ports, settings, watching)
        undoing = Undoing(working)
        failsafe = Failsafe(ports, settings)
        self._driver = Driver(
            ports,
            settings,
            owner,
            {
                Kind.PROVISION: provisions,
                Kind.RELEASE: Releasing(ports, settings, watching),
                Kind.REFILL: Refill(ports, settings, launcher, watching, self.learning),
                Kind.RUN: runs,
                Kind.CLUSTER_CREATE: ClusterCreation(working, undoing),
                Kind.CLUSTER_DELETE: ClusterDeletion(working, undoing),
            },
            failsafe,
        )
        self.desk = FrontDesk(ports, settings, owner, self._driver, provisions)
        self.clusters = ClusterDesk(ports, settings, owner, self._driver)
        runs.desk = self.desk
        self.enrolment = Enrolment(ports, settings, watching.look)
        self.duties: tuple[Duty, ...] = (
            Duty(name="status", every=10.0, work=StatusKeeper(ports, settings, watching), woken_by=HEALTH),
            Duty(
                name="probing", every=settings.limits.probe_every, work=Probing(ports, settings), steady=True
            ),
            Duty(name="hand_overs", every=10.0, work=HandOvers(ports, settings), woken_by=HEALTH),
            Duty(name="lost", every=10.0, work=Lost(ports, settings, watching)),
            Duty(name="deadlines", every=10.0, work=Sweep(ports, settings, watching)),
            Duty(name="overdue", every=30.0, work=OverdueOperations(ports, watching, failsafe, owner)),
            Duty(
                name="boot_watch",
                every=10.0,
                work=BootWatch(ports, settings, watching, hosts),
                woken_by=ENDED,
            ),
            Duty(name="diagnosis", every=5.0, work=Collector(ports)),
            Duty(name="reaper", every=5.0, work=Reaper(ports, settings), woken_by=ENDED),
            Duty(name="launches", every=10.0, work=ForsakenLaunches(ports)),
            Duty(name="commands", every=5.0, work=ForsakenCommands(ports)),
            Duty(name="command_timeouts", every=5.0, work=CommandTimeouts(ports, self.silences)),
            Duty(name="pool", every=10.0, work=PoolKeeper(ports, settings, self.desk)),
            Duty(name="orphans", every=60.0, work=Orphans(ports, settings)),
            Duty(name="cluster_orphans", every=300.0, work=ClusterOrphans(ports, self.clusters)),
            Duty(name="vanished", every=60.0, work=Vanished(ports, settings)),
            Duty(name="auditor", every=300.0, work=Auditor(ports)),
            Duty(name="pruner", every=3600.0, work=Pruner(ports, settings)),
        )
        if ports.runtimes:
            self.duties += (
                Duty(name="arrivals", every=3.0, work=Arrivals(ports, settings)),
                Duty(name="departures", every=5.0, work=Departures(ports)),
            )
        given = DutyContext(store=ports.store, clock=ports.clock, settings=settings, desk=self.desk)
        self.duties += tuple(duty for duties in ports.duties for duty in duties(given))
        self._duties = Duties(ports, owner, self.duties, lease=settings.lease)
        self._endings = EndingsListener(ports)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._driver.run())
            group.create_task(self._duties.run())
            group.create_task(self._endings.run())
            group.create_task(self.enrolment.heartbeats.run())
