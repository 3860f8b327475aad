"""Everything that one replica of the control plane needs from outside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest
from muster.domain.serialization import Plain
from muster.domain.template import TemplateSpec
from muster.ports.access import AccessStore
from muster.ports.clock import Clock
from muster.ports.cluster_store import ClusterStore
from muster.ports.clusters import ClusterProvider
from muster.ports.commands import CommandStore
from muster.ports.duties import Duty, DutyContext, Hook, StandingDuties
from muster.ports.identity import Federation, IdentityVerifier
from muster.ports.ids import Ids
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.overview import OverviewStore
from muster.ports.probe import Prober
from muster.ports.provider import EndingsSource, NodeProvider, UnmetRequirement
from muster.ports.runtime import NodeRuntime
from muster.ports.sign_in import SignInProvider
from muster.ports.store import Store
from muster.ports.wakeups import Wakeups


class TemplatePart(Protocol):
    """A table of a template that an integration reads. It is carried as plain data."""

    @property
    def name(self) -> str: ...

    def whole(self, spec: TemplateSpec) -> Mapping[str, Plain] | None:
        """Return the table with every default, as it is stored; None: this template has none.

        Raises InvalidRequest, naming the key as `TABLE.KEY`, for a value that no template may have.
        """
        ...

    def check(self, spec: TemplateSpec) -> None:
        """Raise InvalidRequest for a value that may not be applied any more. Stored templates may have it."""
        ...


class RequestPart(Protocol):
    """A table of a provision request that an integration reads. It is carried as plain data."""

    @property
    def name(self) -> str: ...

    def whole(self, request: ProvisionRequest) -> Mapping[str, Plain] | None:
        """Return the table with every default, as it is stored; None: this request has none.

        Raises InvalidRequest, naming the key as `TABLE.KEY`.
        """
        ...

    def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        """Raise InvalidRequest if the request has the table and the template is of another runtime."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    store: Store
    commands: CommandStore
    access: AccessStore
    overview: OverviewStore
    clusters: ClusterStore
    jobs: JobStore
    messages: MessageStore
    clock: Clock
    ids: Ids
    wakeups: Wakeups
    providers: Mapping[str, NodeProvider]
    verifier: IdentityVerifier
    endings: Sequence[EndingsSource] = ()
    """Of those providers that can tell at once."""
    unisolated: Mapping[str, str] = field(default_factory=dict)
    """Providers on whose machines a run may leave something for the next one, and why."""
    local: frozenset[str] = frozenset()
    """Providers whose nodes are on the server's own machine."""
    advice: Mapping[str, Mapping[Reason, str]] = field(default_factory=dict)
    """By provider: what to do after a refusal or failure, where the usual advice is of no use."""
    lacks: Sequence[Callable[[TemplateSpec], UnmetRequirement | None]] = ()
    """What else a template may want of a provider or runtime, and this server doesn't have."""
    request_parts: Sequence[RequestPart] = ()
    """Tables of a provision request that integrations read."""
    template_parts: Sequence[TemplatePart] = ()
    """Tables of a template that integrations read."""
    setup: Mapping[str, str] = field(default_factory=dict)
    """By the name of a provider or runtime that is installed: what an operator does to have it."""
    cluster_providers: Mapping[str, ClusterProvider] = field(default_factory=dict)
    prober: Prober | None = None
    """None: services are known by their heartbeats alone."""
    runtimes: Mapping[str, NodeRuntime] = field(default_factory=dict)
    """Those whose nodes need more for an attach than their agent knows."""
    duties: Sequence[Callable[[DutyContext], Sequence[Duty]]] = ()
    """Periodic work of integrations."""
    standing: Sequence[Callable[[DutyContext], Sequence[StandingDuties]]] = ()
    """Work of integrations that goes on without end."""
    outgoing: frozenset[str] = frozenset()
    """Where integrations send events, by name. Messages of a name that is not here can only be forgotten."""
    hooks: Sequence[Callable[[DutyContext], Mapping[str, Hook]]] = ()
    """What services elsewhere may tell integrations, by name."""
    federation: Federation | None = None
    """None: only Muster's own tokens can sign in."""
    sign_in: SignInProvider | None = None
    """None: people sign in with tokens alone."""
    outfit: Callable[[TemplateSpec], str] = lambda _spec: ""
    """What this server puts on a node of a template beside what the template says, as one word that changes
    with it."""
