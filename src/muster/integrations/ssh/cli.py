"""`muster hosts`: list, check, drain, enable and trust the hosts of the settings.

Reads the settings and asks the hosts themselves, so it runs where the server runs, as the server's user.
"""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import output
from muster.cli.connection import open_client
from muster.cli.doctor import drawn
from muster.cli.options import SettingsFile, Yes, confirm, find_settings_file, list_group, lists
from muster.domain.errors import MusterError, Uncertain

if TYPE_CHECKING:
    from muster.config import Config
    from muster.integrations.ssh.hosts import Hosts, RemoteHost

app = list_group("List your ssh hosts; check, drain, enable or trust one.")
Names = Annotated[list[str] | None, typer.Argument(metavar="HOST...", help="Hosts; default: all.")]
Some = Annotated[list[str], typer.Argument(metavar="HOST...", help="Hosts of the settings.")]
Name = Annotated[str, typer.Argument(metavar="HOST", help="A host of the settings.")]
Fingerprint = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="SHA256:…", help="Accept this key alone, without a question."),
]


@lists(app)
def listed(*, file: SettingsFile = None) -> None:
    """List the hosts: whether they answer, and how many slots are taken."""
    place = _Place(file)
    found = asyncio.run(_told(place.hosts(), list(place.inventory.hosts), "facts"))
    columns: output.Columns[dict[str, Any]] = (
        output.Column("HOST", lambda each: each["host"], cut=True),
        output.Column("STATE", lambda each: each["state"]),
        output.Column("NODES", lambda each: each["nodes"], right=True),
        output.Column("SLOTS", lambda each: each["slots"], right=True),
        output.Column("CLASS", lambda each: each["resource_class"] or "any"),
        output.Column("LABELS", lambda each: " ".join(each["labels"]) or None, cut=True),
        output.Column("ADDRESS", lambda each: each["address"], cut=True),
        output.Column("WHY", lambda each: each["why"] or None, cut=True),
    )
    nothing = "no hosts: name them as [hosts.NAME] in muster.toml"
    output.show_table({"items": found}, found, columns, nothing=nothing)


@app.command()
def check(names: Names = None, *, file: SettingsFile = None) -> None:
    """Log in to hosts and say what is wrong with them. Fails if something is broken."""
    from muster.integration import Level
    from muster.integrations.ssh.doctor import looked, reachable_at

    place = _Place(file)
    wanted = names or list(place.inventory.hosts)
    for name in wanted:
        place.inventory.host(name)
    urls = reachable_at(place.config, place.data)
    found = asyncio.run(looked(place.inventory, place.data, place.installation(), urls, wanted))
    broken = any(each.level is Level.FAILED for each in found)
    if output.wants_json():
        output.print_json({"ok": not broken, "checks": found})
    else:
        drawn(found)
    if broken:
        raise typer.Exit(1)


@app.command()
def drain(names: Some, *, file: SettingsFile = None) -> None:
    """Give these hosts no new nodes. What runs there goes on."""
    _drain(file, names, on=True)


@app.command()
def enable(names: Some, *, file: SettingsFile = None) -> None:
    """Let drained hosts take nodes again."""
    _drain(file, names, on=False)


@app.command()
def trust(
    name: Name,
    *,
    fingerprint: Fingerprint = None,
    yes: Yes = False,
    file: SettingsFile = None,
) -> None:
    """Show the fingerprint of a host's key, and accept it. Compare it with the host's own first:
    `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints it there."""
    from muster.integrations.ssh import trust as keys
    from muster.integrations.ssh.command import Ssh

    place = _Place(file)
    host = place.inventory.host(name)
    ssh = Ssh(place.inventory, place.data)
    within = place.inventory.settings.connect_timeout * 2
    key = asyncio.run(keys.shown(ssh, host, within=within))
    before = keys.known(ssh.known_hosts, name)
    if fingerprint is not None and fingerprint != key.fingerprint:
        raise keys.NoKey(f"cannot trust {name}: it shows {key}, not {fingerprint}. Nothing was changed.")
    if key not in before:
        changed = f" It showed {', '.join(map(str, before))} before." if before else ""
        confirm(f"{name} at {host.address} shows {key}.{changed}", yes=yes or fingerprint is not None)
        keys.trust(ssh.known_hosts, name, key)
    how = "was trusted already" if key in before else f"is trusted from now on ({ssh.known_hosts})"
    document = {"host": name, "fingerprint": key.fingerprint, "known_hosts": str(ssh.known_hosts)}
    output.show(document, f"{name}: {key} {how}")


class _Place:
    """The settings, and where the server keeps its data."""

    def __init__(self, file: Path | None) -> None:
        from muster.config import find_server, load
        from muster.integrations.ssh.inventory import Inventory

        self.config: Config = load(find_settings_file(file), environment=os.environ)
        self.inventory: Inventory = Inventory.of(self.config.tables)
        self.data = find_server(os.environ, self.config.server.data_dir).data_dir

    def installation(self) -> str:
        """Whose nodes these are; a word that fits none before a server ran."""
        from muster.client import calls
        from muster.config import DataDirectory
        from muster.integrations.ssh.doctor import NONE

        kept = DataDirectory(self.data).installation()
        if kept is not None:
            return kept
        try:
            with open_client(self.data) as client:
                return client.send(calls.installation()).id
        except MusterError:
            return NONE

    def hosts(self) -> "Hosts":
        from muster.integrations.ssh.hosts import Hosts

        return Hosts(self.inventory, self.data, installation_id=self.installation())


def _drain(file: Path | None, names: list[str], *, on: bool) -> None:
    place = _Place(file)
    for name in names:
        place.inventory.host(name)
    found = asyncio.run(_told(place.hosts(), names, "drain", on=on))
    lines = []
    for each in found:
        more = f" ({each['why']})" if each["why"] else f", {each['nodes']} of {each['slots']} slots taken"
        lines.append(f"{each['host']}: {each['state']}{more}")
    output.show({"items": found}, *lines)
    if any(each["state"] == "away" for each in found):
        raise typer.Exit(1)


async def _told(hosts: "Hosts", names: list[str], verb: str, **fields: Any) -> list[dict[str, Any]]:
    """What these hosts say, one line each; those that are away, too."""
    try:
        return list(await asyncio.gather(*(_line(hosts.remotes[name], verb, fields) for name in names)))
    finally:
        await hosts.close()


async def _line(remote: "RemoteHost", verb: str, fields: dict[str, Any]) -> dict[str, Any]:
    from muster.integrations.ssh.session import Refused

    mine = remote.host.settings
    line = {
        "host": remote.name,
        "group": remote.host.group,
        "address": remote.host.address,
        "slots": mine.slots,
        "resource_class": mine.resource_class,
        "labels": list(mine.labels),
        "state": "away",
        "nodes": None,
        "why": "",
    }
    try:
        told = await remote.ask(verb, **fields)
    except (Uncertain, Refused) as error:
        return {**line, "why": getattr(error, "why", str(error))}
    return {**line, "state": "drained" if told["drained"] else "ready", "nodes": told["nodes"]}
