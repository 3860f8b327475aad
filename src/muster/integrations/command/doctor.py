"""What `muster doctor` says about executables that make machines."""

import asyncio
import os
from collections.abc import Iterator

from muster.domain.errors import ProviderError
from muster.integration import Check, Machine
from muster.integrations.command.machines import installation_prefix
from muster.integrations.command.parts import dialect_of
from muster.integrations.command.tables import FAMILY, CommandConfig

UNKNOWN = "inst-unknown"
"""Without a server there is no installation yet."""


def checks(machine: Machine) -> Iterator[Check]:
    configs: tuple[CommandConfig, ...] = machine.config.tables[FAMILY]
    known = {each.provider for each in configs}
    for template in machine.config.templates:
        if template.provider.startswith(f"{FAMILY}-") and template.provider not in known:
            name = template.provider.removeprefix(f"{FAMILY}-")
            words = f"template {template.name} uses the provider {template.provider}, which has no settings"
            advice = f"name its executable under [{FAMILY}.{name}], or name the server's settings with -f"
            yield Check.failed(template.provider, words, advice)
    for config in configs:
        yield _check(config, machine.installation_id or UNKNOWN)


def _check(config: CommandConfig, installation_id: str) -> Check:
    path = config.executable
    if not path.is_file():
        advice = f"install it, or correct executable under [{FAMILY}.{config.name}]"
        return Check.failed(config.provider, f"there is no file {path}", advice)
    if not os.access(path, os.X_OK):
        return Check.failed(config.provider, f"{path} may not be executed", f"allow it: chmod +x {path}")
    try:
        words = asyncio.run(_asked(config, installation_id))
    except ProviderError as error:
        return Check.failed(config.provider, str(error), f"try it: muster provider check {path} --dry")
    return Check.ok(config.provider, words)


async def _asked(config: CommandConfig, installation_id: str) -> str:
    spoken = dialect_of(config, installation_id=installation_id)
    try:
        hello = await spoken.hello()
        machines = [each async for each in spoken.list(installation_prefix(installation_id))]
    finally:
        await spoken.close()
    features = ", ".join(hello.features) or "none"
    version = f" {hello.version}" if hello.version else ""
    return f"{hello.name}{version} answers; features: {features}; {len(machines)} machines"
