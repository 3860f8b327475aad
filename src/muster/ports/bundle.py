"""Everything that one replica of the control plane needs from outside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.domain.template import Runtime, TemplateSpec
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.cluster_store import ClusterStore
from muster.ports.clusters import ClusterProvider
from muster.ports.commands import CommandStore
from muster.ports.federation import Federation
from muster.ports.identity import IdentityVerifier
from muster.ports.ids import Ids
from muster.ports.overview import OverviewStore
from muster.ports.probe import Prober
from muster.ports.provider import NodeProvider
from muster.ports.runners import RunnerRegistry, Workflows
from muster.ports.runtime import NodeRuntime
from muster.ports.store import Store
from muster.ports.wakeups import Wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    store: Store
    commands: CommandStore
    access: AccessStore
    overview: OverviewStore
    clusters: ClusterStore
    clock: Clock
    ids: Ids
    wakeups: Wakeups
    providers: Mapping[str, NodeProvider]
    verifier: IdentityVerifier
    cluster_providers: Mapping[str, ClusterProvider] = field(default_factory=dict)
    prober: Prober | None = None
    """None: services are known by their heartbeats alone."""
    runtimes: Mapping[Runtime, NodeRuntime] = field(default_factory=dict)
    """Those whose nodes need more for an attach than their agent knows."""
    runners: RunnerRegistry | None = None
    workflows: Workflows | None = None
    federation: Federation | None = None
    """None: nobody signs in but by tokens of ours."""
    outfit: Callable[[TemplateSpec], str] = lambda _spec: ""
    """What this server puts on a node of a template beside what the template says, as one word that changes
    with it."""
