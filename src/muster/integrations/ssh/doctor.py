"""What `muster doctor` says of each host."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.config import find_server
from muster.domain.errors import MusterError
from muster.integration import Check, Machine
from muster.integrations.ssh.hosts import Hosts, RemoteHost
from muster.integrations.ssh.inspection import inspected
from muster.integrations.ssh.inventory import Inventory

if TYPE_CHECKING:
    from muster.config import Config

NONE = "none"
"""Before a server ran for the first time, there is no installation."""


def checks(machine: Machine) -> Iterator[Check]:
    config = machine.config
    if not config.tables["hosts"]:
        if any(each.provider == "ssh" for each in config.templates):
            advice = "name your machines as [hosts.NAME]: see docs/ssh.md"
            yield Check.failed("ssh", "templates use ssh hosts, but the settings name none", advice)
        return
    try:
        inventory = Inventory.of(config.tables)
        urls = reachable_at(config, machine.data)
        yield from asyncio.run(
            looked(inventory, machine.data, machine.installation_id or NONE, urls, list(inventory.hosts))
        )
    except MusterError as error:
        yield Check.failed("ssh", str(error))


def reachable_at(config: "Config", data: Path) -> Sequence[str]:
    """Where nodes reach the server."""
    found = find_server(os.environ, data)
    return config.server.public_url or ((found.url,) if found.url else ())


async def looked(
    inventory: Inventory, data: Path, installation_id: str, urls: Sequence[str], names: Sequence[str]
) -> list[Check]:
    """Inspect these hosts in parallel; the lines are in the order of the names."""
    hosts = Hosts(inventory, data, installation_id=installation_id)

    def of(remote: RemoteHost) -> Sequence[str]:
        tunnel = remote.host.settings.tunnel
        if not remote.host.slots:
            return ()
        return urls if tunnel is None else (f"http://127.0.0.1:{tunnel}",)

    try:
        remotes = [hosts.remotes[name] for name in names]
        found = await asyncio.gather(*(inspected(remote, of(remote)) for remote in remotes))
    finally:
        await hosts.close()
    return [check for each in found for check in each]
