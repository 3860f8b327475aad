"""The cluster port in front of Azure's SDKs, which are loaded at the first call.

The SDKs take most of a second to load and are an extra to install. A server without clusters pays for
neither.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from muster.domain.template import TemplateSpec
from muster.integrations.aks.credentials import check_environment, check_installed, is_loopback
from muster.integrations.aks.plan import plan
from muster.ports.clusters import ClusterProvider

ENDPOINT = "https://management.azure.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class AksSettings:
    endpoint: str = ENDPOINT
    credential: str = "auto"
    call_timeout: float = 30.0
    poll_every: float = 20.0


def lazy_provider(settings: AksSettings, environment: Mapping[str, str]) -> ClusterProvider:
    return cast(ClusterProvider, _LazyProvider(settings, environment))


class _LazyProvider:
    name = "aks"
    plan = staticmethod(plan)

    def __init__(self, settings: AksSettings, environment: Mapping[str, str]) -> None:
        self.call_timeout = settings.call_timeout
        self.poll_every = settings.poll_every
        self._settings = settings
        self._environment = environment
        self._provider: ClusterProvider | None = None

    async def check(self, spec: TemplateSpec) -> None:
        check_installed()
        if not is_loopback(self._settings.endpoint):
            check_environment(self._settings.credential, self._environment)
        await (await self._loaded()).check(spec)

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await getattr(await self._loaded(), verb)(*args, **kwargs)

        return call

    async def _loaded(self) -> ClusterProvider:
        if self._provider is None:
            check_installed()
            module = await asyncio.to_thread(import_module, "muster.integrations.aks.provider")
            self._keep(module.AksProvider(self._settings))
        return cast(ClusterProvider, self._provider)

    def _keep(self, provider: ClusterProvider) -> None:
        """Keep the first provider: another caller may have waited for the same import."""
        if self._provider is None:
            self._provider = provider
