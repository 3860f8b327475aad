"""Watch one replica's calls to the store and the provider. Run an action before or after a chosen one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, cast

from muster.integrations.aks.azure import Azure
from muster.integrations.aks.provider import AksProvider
from muster.ports.cluster_store import ClusterStore
from muster.ports.clusters import ClusterProvider
from muster.ports.commands import CommandStore
from muster.ports.jobs import JobStore
from muster.ports.provider import NodeProvider
from muster.ports.store import Store
from muster.ports.verbs import reads_of
from muster.stores.records import complete_in_steps
from muster_simulation.arm import SimulatedClusters

Action = Callable[[], Awaitable[None]]
Denial = Callable[..., Exception | None]
"""Gets a call's arguments; gives the error with which it fails, or None: it happens."""

PORTS: dict[str, type] = {
    "": Store,
    "commands.": CommandStore,
    "clusters.": ClusterStore,
    "jobs.": JobStore,
    "azure.": Azure,
}
"""The ports whose calls are watched, each with what its verbs are called by here."""
READS = frozenset(prefix + verb for prefix, port in PORTS.items() for verb in reads_of(port))


class CallInterceptor:
    """A call has two moments: before it happens (2k) and after it happened, before its answer (2k + 1)."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.armed = False
        self.deny: dict[str, Exception | Denial] = {}
        """Calls that fail instead of happening."""
        self.in_steps = False
        """Whether operations are completed in steps, as by a store without transactions over many records."""
        self._before: dict[str, Action] = {}
        self._at = -1
        self._strike: Action | None = None

    def run_at(self, at: int, strike: Action) -> None:
        self._at, self._strike = at, strike

    def before(self, verb: str, strike: Action) -> None:
        """Once, before the next call of that verb happens."""
        self._before[verb] = strike

    async def _moment(self, moment: int) -> None:
        strike = self._strike
        if strike is not None and self._at == moment:
            self._strike = None
            await strike()

    async def call(self, verb: str, inner: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        denial = self.deny.get(verb)
        error = denial if isinstance(denial, Exception | None) else denial(*args, **kwargs)
        if error is not None:
            raise error
        strike = self._before.pop(verb, None)
        if strike is not None:
            await strike()
        if not self.armed or verb in ("lease_duty", "lease_duties"):
            return await inner(*args, **kwargs)
        number = len(self.calls)
        self.calls.append(verb)
        await self._moment(2 * number)
        result = await inner(*args, **kwargs)
        await self._moment(2 * number + 1)
        return result

    def writes(self) -> list[str]:
        return [verb for verb in self.calls if verb not in READS and not verb.startswith("provider.")]


class _Watched:
    def __init__(self, inner: object, interceptor: CallInterceptor, prefix: str) -> None:
        self._inner = inner
        self._ambush = interceptor
        self._prefix = prefix

    def __getattr__(self, verb: str) -> Any:
        if verb == "complete" and self._ambush.in_steps:
            return partial(complete_in_steps, self)
        found = getattr(self._inner, verb)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._ambush.call(f"{self._prefix}{verb}", found, *args, **kwargs)

        return call


def watched_store(store: Store, interceptor: CallInterceptor) -> Store:
    return cast(Store, _Watched(store, interceptor, ""))


def watched_commands(commands: CommandStore, interceptor: CallInterceptor) -> CommandStore:
    return cast(CommandStore, _Watched(commands, interceptor, "commands."))


def watched_cluster_store(clusters: ClusterStore, interceptor: CallInterceptor) -> ClusterStore:
    return cast(ClusterStore, _Watched(clusters, interceptor, "clusters."))


def watched_jobs(jobs: JobStore, interceptor: CallInterceptor) -> JobStore:
    return cast(JobStore, _Watched(jobs, interceptor, "jobs."))


def watched_clusters(provider: ClusterProvider, interceptor: CallInterceptor) -> ClusterProvider:
    """The same steps, over a watched Azure."""
    azure = cast(Azure, _Watched(cast(SimulatedClusters, provider).azure, interceptor, "azure."))
    return AksProvider(azure, call_timeout=provider.call_timeout, poll_every=provider.poll_every)


class _WatchedProvider(_Watched):
    def list(self) -> AsyncIterator[Any]:
        return cast(AsyncIterator[Any], cast(NodeProvider, self._inner).list())


def watched_provider(provider: NodeProvider, interceptor: CallInterceptor) -> NodeProvider:
    return cast(NodeProvider, _WatchedProvider(provider, interceptor, "provider."))
