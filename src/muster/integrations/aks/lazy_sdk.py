"""Azure's SDKs, loaded at the first call.

The SDKs take most of a second to load and are an extra to install. A server without clusters pays for
neither.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from muster.domain.template import TemplateSpec
from muster.integrations.aks.azure import Azure
from muster.integrations.aks.credentials import check_environment, check_installed, is_loopback
from muster.integrations.aks.tables import AksConfig


def lazy_sdk(settings: AksConfig, environment: Mapping[str, str]) -> Azure:
    return cast(Azure, _LazySdk(settings, environment))


class _LazySdk:
    def __init__(self, settings: AksConfig, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = environment
        self._sdk: Azure | None = None

    async def check(self, spec: TemplateSpec) -> None:
        check_installed()
        if not is_loopback(self._settings.endpoint):
            check_environment(self._settings.credential, self._environment)
        await (await self._loaded()).check(spec)

    async def close(self) -> None:
        if self._sdk is not None:
            await self._sdk.close()

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await getattr(await self._loaded(), verb)(*args, **kwargs)

        return call

    async def _loaded(self) -> Azure:
        if self._sdk is None:
            check_installed()
            module = await asyncio.to_thread(import_module, "muster.integrations.aks.sdk")
            self._keep(module.AzureSdk(self._settings))
        return cast(Azure, self._sdk)

    def _keep(self, sdk: Azure) -> None:
        """Keep the first one: another caller may have waited for the same import."""
        if self._sdk is None:
            self._sdk = sdk
