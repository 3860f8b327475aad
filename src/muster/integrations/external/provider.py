"""The provider of apps: creates nothing, ends nothing, and answers for its machines from their records.

An app exists as long as its record lives, so it is never an orphan and never vanishes. A condemned app is
gone once it said goodbye, or once it was silent for long enough. The next heartbeat tells the app that it is
condemned.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from muster.domain import app as apps
from muster.domain.errors import Refused
from muster.domain.lifecycle import LIVE, PRESENT
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.template import EXTERNAL
from muster.ports.clock import Clock
from muster.ports.paging import every_node
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState
from muster.ports.store import Store


class ExternalProvider:
    """Implements muster.ports.provider.NodeProvider. `lost_after`: seconds of silence that end an app."""

    name = EXTERNAL
    visibility_window = 0.0
    call_timeout = 30.0
    makes_way: frozenset[Reason] = frozenset()

    def __init__(self, store: Store, clock: Clock, *, installation_id: str, lost_after: float) -> None:
        self._store = store
        self._clock = clock
        self._installation_id = installation_id
        self._lost_after = lost_after

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        message = (
            f"cannot make nodes of template {request.template.name}: they are apps that enrol themselves"
        )
        raise Refused(message, Reason.PROVIDER_REFUSED)

    async def find(self, token: str) -> Sequence[Machine]:
        return ()

    async def list(self) -> AsyncIterator[Machine]:
        async for node in every_node(self._store, states=PRESENT):
            if node.provider == self.name:
                yield self._machine(node, MachineState.RUNNING)

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        known: dict[str, Node] = {}
        for machine_id in machine_ids:
            node = await self._store.node_by_machine(self.name, machine_id)
            if node is not None:
                known[machine_id] = node
        seen = await self._store.last_seen([node.id for node in known.values()])
        return {
            machine_id: self._machine(node, self._state(node, seen.get(node.id)))
            for machine_id, node in known.items()
        }

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        return None

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        """Do nothing: an app ends itself."""

    def _state(self, node: Node, seen_at: float | None) -> MachineState:
        if node.state in LIVE:
            return MachineState.RUNNING
        now = self._clock.now()
        if apps.is_gone(node, seen_at=seen_at, now=now, lost_after=self._lost_after):
            return MachineState.GONE
        return MachineState.STOPPING

    def _machine(self, node: Node, state: MachineState) -> Machine:
        return Machine(
            id=node.machine_id,
            installation_id=self._installation_id,
            token="",
            instance_type=node.instance_type,
            usage_class=node.usage_class,
            state=state,
        )
