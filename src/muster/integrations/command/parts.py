"""The parts of this integration, put together for a server."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from muster.integration import Parts, Site
from muster.integrations.command import dialect
from muster.integrations.command.calls import Caller
from muster.integrations.command.executable import Executable
from muster.integrations.command.garm import GarmBinary
from muster.integrations.command.identity import KEY_FILE, CommandVerifier, read_key
from muster.integrations.command.machines import MachineMaker
from muster.integrations.command.provider import CommandProvider
from muster.integrations.command.tables import FAMILY, CommandConfig, Dialect

PASSED_ON = ("PATH", "LANG")
"""Variables that every executable gets."""


def dialect_of(config: CommandConfig, *, installation_id: str) -> dialect.Dialect:
    """Return the executable of these settings, ready to be called."""
    names = (*PASSED_ON, *config.environment)
    caller = Caller(
        [str(config.executable), *config.arguments],
        environment={name: os.environ[name] for name in names if name in os.environ},
        at_once=config.calls_at_once,
    )
    kind = GarmBinary if config.dialect is Dialect.GARM else Executable
    return kind(config, caller, installation_id=installation_id)


async def connect(site: Site) -> Parts:
    configs: Sequence[CommandConfig] = site.tables[FAMILY]
    key = read_key(site.nodes.parent / KEY_FILE)
    providers: list[CommandProvider] = []
    verifiers: dict[str, CommandVerifier] = {}
    async with AsyncExitStack() as opened:
        for config in configs:
            maker = MachineMaker(provider=config.provider, key=key, servers=site.urls, dead_man=site.dead_man)
            spoken = dialect_of(config, installation_id=site.installation_id)
            provider = CommandProvider(config, spoken, maker, installation_id=site.installation_id)
            opened.push_async_callback(provider.close)
            await provider.open()
            providers.append(provider)
            verifiers[provider.name] = CommandVerifier(provider, maker, installation_id=site.installation_id)
        return Parts(
            providers=providers,
            verifiers=verifiers,
            starts_with={each.name: each.starts_with for each in providers},
            unisolated={each.name: "jobs there are root on the machine" for each in providers},
            close=opened.pop_all().aclose,
        )
