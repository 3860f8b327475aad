"""The hosts that the settings name: groups taken apart, defaults filled in, references checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.config.values import LOOPBACK
from muster.domain.errors import InvalidRequest
from muster.domain.matching import type_matches
from muster.integrations.ssh.tables import HostArchitecture, HostConfig, SshConfig, SshSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host. Its group's settings are its own."""

    settings: HostConfig
    group: str = ""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def address(self) -> str:
        return self.settings.address or self.name

    @property
    def slots(self) -> int:
        return self.settings.slots

    @property
    def local(self) -> bool:
        return self.address in LOOPBACK

    def type_of(self, resource_class: str) -> str:
        """The instance type of its nodes: patterns of a template choose hosts by it."""
        return f"{self.name}.{resource_class}"

    def serves(self, resource_class: str, patterns: Sequence[str], spec: SshSpec) -> bool:
        mine = self.settings
        return (
            mine.slots > 0
            and mine.resource_class in ("", resource_class)
            and type_matches(self.type_of(resource_class), patterns)
            and all(label in mine.labels for label in spec.labels)
            and (spec.architecture is HostArchitecture.ANY or spec.architecture is mine.architecture)
        )


class Inventory:
    """All hosts, by name, in the order of the settings."""

    def __init__(self, settings: SshConfig, hosts: Sequence[HostConfig]) -> None:
        """Raises InvalidRequest for names given twice, and for a jump host that isn't there."""
        self.settings = settings
        self.hosts: dict[str, Host] = {}
        for host in (host for each in hosts for host in _apart(each)):
            if host.name in self.hosts:
                raise InvalidRequest("[hosts]", host.name, "is named twice: as a host or a member of a group")
            given = host.settings
            filled = replace(given, user=given.user or settings.user, key=given.key or settings.key)
            self.hosts[host.name] = replace(host, settings=filled)
        for host in self.hosts.values():
            self.way(host)

    @classmethod
    def of(cls, tables: Mapping[str, Any]) -> "Inventory":
        return cls(tables["ssh"], tables["hosts"])

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            rule = f"is none of the settings: {', '.join(self.hosts) or 'they name no host'}"
            raise InvalidRequest("host", name, rule)
        return self.hosts[name]

    def way(self, host: Host) -> list[Host]:
        """The jump hosts that lead to a host, the nearest to the server first."""
        found: list[Host] = []
        at = host
        while at.settings.jump:
            if at.settings.jump not in self.hosts:
                rule = f"names no host: add [hosts.{at.settings.jump}], with slots = 0 if it is only a way"
                raise InvalidRequest(f"[hosts.{at.name}] jump", at.settings.jump, rule)
            at = self.hosts[at.settings.jump]
            if at is host or at in found:
                raise InvalidRequest(f"[hosts.{host.name}] jump", at.name, "leads in a circle")
            found.insert(0, at)
        return found


def _apart(given: HostConfig) -> list[Host]:
    if not given.members:
        return [Host(settings=given)]
    hosts = []
    for member in given.members:
        name, _, address = member.partition("=")
        hosts.append(Host(settings=replace(given, name=name, address=address, members=()), group=given.name))
    return hosts
