"""What is wrong with a host, from what it says of itself."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.domain.errors import Uncertain
from muster.domain.template import RESOURCE_CLASSES
from muster.domain.text import counted
from muster.integration import Check, Level
from muster.integrations.ssh.hosts import RemoteHost
from muster.integrations.ssh.inventory import Host
from muster.integrations.ssh.session import Refused
from muster.integrations.ssh.tables import HostArchitecture

DISK_LEAST = 1 << 30
FILES_LEAST = 10_000
SKEW_MOST = 60.0
SHARED = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "glusterfs", "ceph", "lustre", "afs")
"""File systems that other machines write to as well: locks there prove nothing."""
WITHIN = 20.0


async def inspected(remote: RemoteHost, urls: Sequence[str]) -> list[Check]:
    """Ask a host and judge it. `urls`: where its nodes would reach the server."""
    subject = f"host {remote.name}"
    try:
        told = await remote.ask("facts", within=WITHIN, urls=list(urls), limits=remote.host.settings.limits)
    except (Uncertain, Refused) as error:
        return [Check.failed(subject, str(error))]
    found = list(judged(remote.host, told, now=time.time()))
    if not found:
        found = [Check.ok(subject, _fine(remote.host, told))]
    return found


def judged(host: Host, told: Mapping[str, Any], *, now: float) -> Iterator[Check]:
    """What is wrong, one line each."""
    for rule in (_disk, _reach, _room, _survival, _clock, _neighbours):
        for level, words, advice in rule(host, told, now):
            yield Check(subject=f"host {host.name}", level=level, words=words, advice=advice)


Finding = tuple[Level, str, str]


def _disk(host: Host, told: Mapping[str, Any], _now: float) -> Iterator[Finding]:
    place = told["directory"]
    if not told["writable"]:
        advice = f"give {told['user']} the right to, or set directory under [hosts.{host.name}]"
        yield Level.FAILED, f"{told['user']} can't write to {place}", advice
    if told["filesystem"] in SHARED:
        advice = f"set directory under [hosts.{host.name}] to a place on the host's own disk"
        yield Level.FAILED, f"{place} is on {told['filesystem']}: its locks prove nothing", advice
    if told["free_bytes"] < DISK_LEAST:
        words = f"{told['free_bytes'] >> 20} MiB are free for {place}"
        yield Level.WARNING, words, "free some space, or set directory"
    if told["free_files"] is not None and told["free_files"] < FILES_LEAST:
        words = f"the file system of {place} has room for {counted(told['free_files'], 'more file')}"
        yield Level.WARNING, words, "remove files there, or set directory"


def _reach(host: Host, told: Mapping[str, Any], _now: float) -> Iterator[Finding]:
    for url, why in told["reached"].items():
        if why:
            advice = f"open the way, set server.public_url, or set tunnel under [hosts.{host.name}]"
            yield Level.FAILED, f"it can't reach the server at {url}: {why}", advice


def _room(host: Host, told: Mapping[str, Any], _now: float) -> Iterator[Finding]:
    size = RESOURCE_CLASSES[host.settings.resource_class or "small"]
    for what, has, needs in (
        ("processors", told["cpu"], host.slots * size.cpu),
        ("MiB of memory", told["memory_mib"], host.slots * size.memory_mib),
    ):
        if has and has < needs:
            words = f"it has {has} {what}, and {counted(host.slots, 'slot')} of {size.name} need {needs}"
            yield Level.WARNING, words, f"lower slots under [hosts.{host.name}]"
    asked = host.settings.architecture
    if asked is not HostArchitecture.ANY and asked != told["machine"]:
        yield Level.FAILED, f"it is {told['machine']}, and the settings say {asked}", "correct architecture"


def _survival(host: Host, told: Mapping[str, Any], _now: float) -> Iterator[Finding]:
    if told["kills_processes"] and not told["scope"]:
        words = "its logind kills what a session leaves behind (KillUserProcesses=yes): nodes would not last"
        yield Level.FAILED, words, f"run `loginctl enable-linger {told['user']}` there, or switch that off"
    elif not told["scope"] and host.settings.limits != "rlimits":
        words = f"limits are rlimits of each process: {told['user']} has no systemd-run there"
        yield Level.WARNING, words, 'log in as root for limits per node, or set limits = "rlimits"'


def _clock(_host: Host, told: Mapping[str, Any], now: float) -> Iterator[Finding]:
    skew = told["time"] - now
    if abs(skew) > SKEW_MOST:
        words = f"its clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
        yield Level.WARNING, words, "set its clock: certificates are judged by it"


def _neighbours(_host: Host, told: Mapping[str, Any], _now: float) -> Iterator[Finding]:
    for name, count in told["others"].items():
        words = f"{counted(count, 'node')} of installation {name} run there too, beyond these slots"
        yield Level.WARNING, words, "share the slots out between both installations"


def _fine(host: Host, told: Mapping[str, Any]) -> str:
    words = [f"{told['nodes']} of {counted(host.slots, 'slot')} taken", f"Python {told['python']}"]
    words += [f"as {told['user']}", f"limits by systemd ({told['scope']})" if told["scope"] else "rlimits"]
    return ", ".join([*words, "drained"] if told["drained"] else words)
