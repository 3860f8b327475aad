"""What really happened to every machine. The cloud writes it; only tests and the simulation's judge read."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.domain.template import UsageClass
from muster.ports.provider import Machine, MachineState


@dataclass(slots=True, kw_only=True)
class Entry:
    """One machine, from its making to its end. Times are the clock's."""

    machine_id: str
    installation_id: str
    token: str
    template: str
    instance_type: str
    usage_class: UsageClass
    sent_at: float
    """When the call that made it left its caller."""
    created_at: float
    running_at: float
    visible_at: float
    terminate_calls: list[float] = field(default_factory=list)
    """Every termination that arrived, effective or not."""
    stopping_at: float | None = None
    gone_at: float | None = None
    cause: str = ""
    _shown: Machine | None = field(default=None, init=False, repr=False, compare=False)
    """As the last answer showed it."""

    @property
    def gone(self) -> bool:
        return self.gone_at is not None

    def shown(self, now: float) -> Machine:
        """The machine as an answer shows it."""
        if self.gone_at is not None:
            state = MachineState.GONE
        elif self.stopping_at is not None:
            state = MachineState.STOPPING
        else:
            state = MachineState.RUNNING if now >= self.running_at else MachineState.PENDING
        if self._shown is None or self._shown.state is not state:
            self._shown = Machine(
                id=self.machine_id,
                installation_id=self.installation_id,
                token=self.token,
                instance_type=self.instance_type,
                usage_class=self.usage_class,
                state=state,
            )
        return self._shown


class Ledger:
    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_token: dict[str, list[Entry]] = {}
        self._live: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Every machine there ever was, oldest first."""
        return iter(self._entries.values())

    def get(self, machine_id: str) -> Entry | None:
        return self._entries.get(machine_id)

    def add(self, entry: Entry) -> None:
        self._entries[entry.machine_id] = entry
        self._by_token.setdefault(entry.token, []).append(entry)
        self._live[entry.machine_id] = entry

    def close(self, entry: Entry, *, now: float, cause: str) -> None:
        entry.gone_at = now
        entry.cause = cause
        del self._live[entry.machine_id]

    def of_token(self, token: str) -> tuple[Entry, ...]:
        return tuple(self._by_token.get(token, ()))

    def live(self) -> tuple[Entry, ...]:
        """Machines that are not gone, oldest first."""
        return tuple(self._live.values())
