"""Finds the integrations that are installed: entry points of the group `muster.integrations`.

Reads `entry_points.txt` of the installed packages itself. `importlib.metadata` does the same, and takes a
fifth of the time of `muster --help` to be imported.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.domain.errors import MusterError

if TYPE_CHECKING:
    from muster.config.tables import Table, TemplateTable
    from muster.integration import Integration

GROUP = "muster.integrations"
OWN = "muster_compute"
"""The package that brings the built-in ones."""


class IntegrationBroken(MusterError):
    """An integration is installed and can't be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    name: str
    module: str
    attribute: str
    package: str

    def load(self) -> "Integration":
        try:
            found: Integration = getattr(import_module(self.module), self.attribute)
        except Exception as error:
            raise IntegrationBroken(
                f"cannot load the integration {self.name}: {type(error).__name__}: {error}; "
                f"upgrade the package {self.package}, or uninstall it"
            ) from error
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """All integrations, in the order of their names."""

    integrations: Mapping[str, "Integration"]
    tables: Mapping[str, "Table"]
    template_tables: Mapping[str, "TemplateTable[Any]"]

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(sorted(name for each in self.integrations.values() for name in each.providers))

    def in_a_family(self, provider: str) -> bool:
        """Whether an integration brings providers of such names, one for each of its settings."""
        family, _, name = provider.partition("-")
        return bool(name) and any(each.family == family for each in self.integrations.values())

    @property
    def attach_timeouts(self) -> Mapping[str, float]:
        return {
            name: time for each in self.integrations.values() for name, time in each.attach_timeouts.items()
        }

    @property
    def runtimes(self) -> tuple[str, ...]:
        return tuple(sorted(name for each in self.integrations.values() for name in each.runtimes))


@cache
def entry_points() -> tuple[EntryPoint, ...]:
    """Return the installed integrations. Raises IntegrationBroken for a name brought twice, or without our
    own."""
    found: dict[str, EntryPoint] = {}
    for each in _all():
        other = found.setdefault(each.name, each)
        if (other.module, other.attribute) != (each.module, each.attribute):
            raise IntegrationBroken(
                f"cannot choose the integration {each.name}: {other.package} and {each.package} bring it;"
                " uninstall one of them"
            )
    if not any(each.package.startswith(OWN) for each in found.values()):
        raise IntegrationBroken(
            "cannot find Muster's own integrations: it was installed before it had them; install it again"
            " (in a source tree: `.venv/bin/pip install --no-deps --no-build-isolation -e .`)"
        )
    return tuple(found[name] for name in sorted(found))


@cache
def installed() -> Installed:
    integrations = {each.name: each.load() for each in entry_points()}
    tables: dict[str, Table] = {}
    template_tables: dict[str, TemplateTable[Any]] = {}
    for each in integrations.values():
        tables.update(each.tables())
        template_tables.update({table.name: table for table in each.template_tables()})
    return Installed(integrations=integrations, tables=tables, template_tables=template_tables)


def _all() -> Iterator[EntryPoint]:
    for folder in dict.fromkeys(sys.path):
        try:
            with os.scandir(folder or ".") as entries:
                names = sorted(each.name for each in entries if each.name.endswith(".dist-info"))
        except OSError:
            continue
        for name in names:
            try:
                text = Path(folder, name, "entry_points.txt").read_text(encoding="utf-8")
            except OSError:
                continue
            if GROUP in text:
                yield from _read(text, name.rpartition("-")[0].rpartition("-")[0] or name)


def _read(text: str, package: str) -> Iterator[EntryPoint]:
    section = ""
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("["):
            section = words.strip("[]").strip()
        elif section == GROUP and "=" in words and not words.startswith("#"):
            name, _, target = words.partition("=")
            module, _, attribute = target.partition(":")
            yield EntryPoint(
                name=name.strip(), module=module.strip(), attribute=attribute.strip(), package=package
            )
