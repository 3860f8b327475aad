"""The judge: sees every event, every cloud action and every call, and asks all the rules.

Owns the first broken promise. Rules raise; what a process of the simulation runs into must not, so the judge
catches, remembers the first, and tells the world to stop.
"""

from collections.abc import Callable, Sequence

from muster.domain.events import Entity, Event
from muster.domain.ids import NodeId
from muster_simulation.cloud import Entry
from muster_simulation.invariants.boot_rules import BootRules
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import Folded
from muster_simulation.invariants.health_rules import HealthRules
from muster_simulation.invariants.hearing_rules import HearingRules, TokenRules
from muster_simulation.invariants.launch_rules import LaunchRules
from muster_simulation.invariants.machine_rules import MachineRules
from muster_simulation.invariants.node_rules import NodeRules
from muster_simulation.invariants.operation_rules import OperationRules
from muster_simulation.invariants.queue_rules import QueueRules
from muster_simulation.invariants.time_rules import TimeRules
from muster_simulation.trace import Trace


class Judge:
    def __init__(self, context: Context, trace: Trace, stop: Callable[[Broken], None]) -> None:
        self.context = context
        self.boots = BootRules(context)
        self.health = HealthRules(context)
        self.hearing = HearingRules(context)
        self.launches = LaunchRules(context)
        self.machines = MachineRules(context)
        self.nodes = NodeRules(context)
        self.operations = OperationRules(context)
        self.queues = QueueRules(context)
        self.times = TimeRules(context)
        self.tokens = TokenRules(context)
        self.broken: Broken | None = None
        self._trace = trace
        self._stop = stop
        self._ended: list[Callable[[str], None]] = []
        self._counts: dict[str, int] = {}

    @property
    def records(self) -> Folded:
        return self.context.records

    def when_ended(self, told: Callable[[str], None]) -> None:
        """Call a listener for each operation that ends."""
        self._ended.append(told)

    def count(self, name: str) -> int:
        """How many node events of this name there were."""
        return self._counts.get(name, 0)

    # --- what is seen -----------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        self._trace.event(event)
        self.guarded(lambda: self._event(event))

    def _event(self, event: Event) -> None:
        before, after = self.records.fold(event)
        match event.entity:
            case Entity.NODE:
                self._counts[event.name] = self._counts.get(event.name, 0) + 1
                self.nodes.check(event, before, after)
                self.boots.check(event, before, after)
                self.health.check(event, before, after)
                self.hearing.check(event, before)
            case Entity.LAUNCH:
                self.launches.check(event, before, after)
            case Entity.OPERATION:
                self.operations.check(event, before, after)
                if event.name == "committed":
                    self.boots.committed(after)
                    self.health.committed(after)
                if event.name == "ended":
                    for told in self._ended:
                        told(event.entity_id)
            case Entity.TEMPLATE:
                self.launches.template(after)
            case Entity.HEALTH:
                self.health.changed(event)
            case Entity.DIAGNOSIS:
                self.boots.diagnosed(event)
            case Entity.INSTALLATION | Entity.COMMAND | Entity.CLUSTER | Entity.JOB:
                pass
        self.queues.saw()

    def called(self, verb: str, subjects: Sequence[str]) -> None:
        """A replica calls the provider."""
        if verb == "launch":
            self.guarded(lambda: self.launches.called(subjects[0]))
        elif verb == "terminate":
            self.guarded(lambda: self.machines.terminate_called(subjects))

    def made(self, entry: Entry) -> None:
        if entry.installation_id == self.context.installation_id:
            self.guarded(lambda: self.launches.made(entry))

    def gone(self, entry: Entry) -> None:
        self.guarded(lambda: self.machines.gone(entry))
        if entry.installation_id == self.context.installation_id:
            self.launches.gone(entry)

    def acted(self, verb: str, subject: str, outcome: str) -> None:
        self._trace.action(self.context.now(), verb, subject, outcome)

    def recognised(self, token: str, node_id: NodeId) -> None:
        """A replica takes the holder of this token for this node."""
        self.guarded(lambda: self.tokens.recognised(token, node_id))

    def acknowledged(self, operation_id: str, key: str | None) -> None:
        self.guarded(lambda: self.operations.acknowledged(operation_id, key))

    def tick(self, seconds: float, *, calm: bool) -> None:
        self.guarded(lambda: self.machines.tick(seconds, calm=calm))
        self.guarded(lambda: self.boots.tick(calm=calm))
        self.guarded(lambda: self.health.tick(calm=calm))
        self.guarded(lambda: self.times.tick(seconds, calm=calm))
        self.guarded(lambda: self.queues.tick(seconds, calm=calm))

    def failed(self, error: BaseException) -> None:
        """Code of the control plane raised what it never should, or a rule outside the judge broke."""
        if isinstance(error, Broken):
            self._keep(error)
            return
        broken = Broken("no_unexpected_error", f"{type(error).__name__}: {error}")
        broken.__cause__ = error
        self._keep(broken)

    def guarded(self, check: Callable[[], None]) -> None:
        """Ask a rule. Keep the first promise that is broken."""
        try:
            check()
        except Broken as broken:
            self._keep(broken)

    def _keep(self, broken: Broken) -> None:
        if self.broken is None:
            self.broken = broken
            self._stop(broken)
