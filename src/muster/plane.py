"""One replica of the control plane, composed from its ports. Names no adapter."""

import asyncio
from collections.abc import Sequence

from muster.controllers.apps import HandOvers, ServiceProbes
from muster.controllers.attachments import Attachments, Withdrawals
from muster.controllers.boot_watch import BootWatch
from muster.controllers.cluster_orphans import ClusterOrphans
from muster.controllers.commands import CommandTimeouts, LostCommands
from muster.controllers.deadlines import DeadlineSweep, OverdueOperations
from muster.controllers.duties import Duties
from muster.controllers.evidence_collector import EvidenceCollector
from muster.controllers.job_placements import JobPlacements
from muster.controllers.launch_closer import LaunchCloser
from muster.controllers.node_health import LostNodes, PaceKeeper, StatusKeeper
from muster.controllers.orphans import Orphans
from muster.controllers.pool import PoolKeeper
from muster.controllers.reaper import Reaper
from muster.controllers.standing_duties import StandingDutyKeeper
from muster.controllers.upkeep import Auditor, PoolSampler, Pruner
from muster.controllers.vanished_machines import EndingsListener, VanishedMachines
from muster.domain.operation import Kind
from muster.domain.settings import Settings
from muster.enrolment.signals import Enrolment
from muster.operations.boot_history import BootHistory
from muster.operations.cluster_desk import ClusterDesk
from muster.operations.cluster_handlers import ClusterCreation, ClusterRemoval
from muster.operations.cluster_work import ClusterWorks
from muster.operations.commands import CommandDesk
from muster.operations.desk import OperationDesk
from muster.operations.driver import Driver
from muster.operations.failsafe import Failsafe
from muster.operations.launcher import Launcher
from muster.operations.operator_desk import OperatorDesk
from muster.operations.provision import ProvisionHandler
from muster.operations.refill import RefillHandler
from muster.operations.release import ReleaseHandler
from muster.operations.run import RunHandler
from muster.operations.templates import TemplateDesk
from muster.operations.watch import SilentNodes, WatchTracker
from muster.ports.bundle import Ports
from muster.ports.duties import Duty, DutyContext
from muster.ports.wakeups import ENDED, HEALTH, JOBS

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
        watch_tracker = self.watch_tracker = WatchTracker(ports.store, ports.clock, settings.limits)
        self.boot_history = BootHistory(ports.store, ports.clock, settings.limits)
        provisions = ProvisionHandler(ports, settings, launcher, watch_tracker, self.boot_history)
        self.command_desk = CommandDesk(ports, shells_per_node=settings.shells.per_node)
        self.silent_nodes = SilentNodes(ports, settings, watch_tracker)
        self.operator = OperatorDesk(ports)
        self.templates = TemplateDesk(ports)
        runs = RunHandler(ports, settings, self.command_desk, watch_tracker, self.silent_nodes)
        works = ClusterWorks(ports, settings, watch_tracker)
        removal = ClusterRemoval(works)
        failsafe = Failsafe(ports, settings)
        self._driver = Driver(
            ports,
            settings,
            owner,
            {
                Kind.PROVISION: provisions,
                Kind.RELEASE: ReleaseHandler(ports, settings, watch_tracker),
                Kind.REFILL: RefillHandler(ports, settings, launcher, watch_tracker, self.boot_history),
                Kind.RUN: runs,
                Kind.CLUSTER_CREATE: ClusterCreation(works, removal),
                Kind.CLUSTER_DELETE: removal,
            },
            failsafe,
        )
        self.desk = OperationDesk(ports, settings, owner, self._driver, provisions)
        self.clusters = ClusterDesk(ports, settings, owner, self._driver)
        runs.desk = self.desk
        self.enrolment = Enrolment(ports, settings, watch_tracker.look)
        self.duties: tuple[Duty, ...] = (
            Duty(
                name="status",
                every=min(10.0, settings.limits.stale_after / 2),  # or each of its ticks would end a gap
                work=StatusKeeper(ports, settings, watch_tracker),
                woken_by=HEALTH,
            ),
            Duty(name="hand_overs", every=10.0, work=HandOvers(ports, settings), woken_by=HEALTH),
            Duty(name="pace", every=30.0, work=PaceKeeper(ports, settings, watch_tracker)),
            Duty(name="lost", every=10.0, work=LostNodes(ports, settings, watch_tracker)),
            Duty(name="deadlines", every=10.0, work=DeadlineSweep(ports, settings, watch_tracker)),
            Duty(name="overdue", every=30.0, work=OverdueOperations(ports, watch_tracker, failsafe, owner)),
            Duty(
                name="boot_watch",
                every=10.0,
                work=BootWatch(ports, settings, watch_tracker, hosts),
                woken_by=ENDED,
            ),
            Duty(name="diagnosis", every=5.0, work=EvidenceCollector(ports)),
            Duty(name="reaper", every=5.0, work=Reaper(ports, settings), woken_by=ENDED),
            Duty(name="launches", every=10.0, work=LaunchCloser(ports)),
            Duty(name="commands", every=5.0, work=LostCommands(ports), woken_by=ENDED),
            Duty(name="command_timeouts", every=5.0, work=CommandTimeouts(ports, self.silent_nodes)),
            Duty(name="job_placements", every=15.0, work=JobPlacements(ports), woken_by=JOBS),
            Duty(name="pool", every=10.0, work=PoolKeeper(ports, settings, self.desk)),
            Duty(name="orphans", every=60.0, work=Orphans(ports, settings)),
            Duty(name="cluster_orphans", every=300.0, work=ClusterOrphans(ports, self.clusters)),
            Duty(name="vanished", every=60.0, work=VanishedMachines(ports, watch_tracker)),
            Duty(name="auditor", every=300.0, work=Auditor(ports)),
            Duty(name="pool_samples", every=60.0, work=PoolSampler(ports)),
            Duty(name="pruner", every=3600.0, work=Pruner(ports, settings)),
        )
        if ports.prober is not None:
            probes = ServiceProbes(ports, ports.prober, settings)
            self.duties += (
                Duty(name="probing", every=settings.limits.probe_every, work=probes, steady=True),
            )
        if ports.runtimes:
            self.duties += (
                Duty(name="arrivals", every=3.0, work=Attachments(ports, settings)),
                Duty(name="departures", every=5.0, work=Withdrawals(ports)),
            )
        given = DutyContext(
            store=ports.store,
            jobs=ports.jobs,
            messages=ports.messages,
            access=ports.access,
            clock=ports.clock,
            ids=ports.ids,
            wakeups=ports.wakeups,
            settings=settings,
            desk=self.desk,
            owner=owner,
        )
        self.duties += tuple(duty for duties in ports.duties for duty in duties(given))
        self.hooks = {name: hook for hooks in ports.hooks for name, hook in hooks(given).items()}
        self._duties = Duties(ports, owner, self.duties, lease=settings.lease)
        standing = [each for sources in ports.standing for each in sources(given)]
        self._standing = StandingDutyKeeper(ports, owner, standing, lease=settings.lease)
        self._endings = EndingsListener(ports)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._driver.run())
            group.create_task(self._duties.run())
            group.create_task(self._standing.run())
            group.create_task(self._endings.run())
            group.create_task(self.enrolment.heartbeats.run())
