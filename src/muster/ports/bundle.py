"""Everything that one replica of the control plane needs from outside."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.commands import CommandStore
from muster.ports.identity import IdentityVerifier
from muster.ports.ids import Ids
from muster.ports.overview import OverviewStore
from muster.ports.probe import Prober
from muster.ports.provider import NodeProvider
from muster.ports.store import Store
from muster.ports.wakeups import Wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    store: Store
    commands: CommandStore
    access: AccessStore
    overview: OverviewStore
    clock: Clock
    ids: Ids
    wakeups: Wakeups
    providers: Mapping[str, NodeProvider]
    verifier: IdentityVerifier
    prober: Prober | None = None
    """None: services are known by their heartbeats alone."""
