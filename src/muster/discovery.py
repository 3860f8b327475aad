"""Finds the integrations that are installed: entry points of the group `muster.integrations`.

Reads `entry_points.txt` of the installed packages itself. `importlib.metadata` does the same, and takes a
fifth of the time of `muster --help` to be imported.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from muster.domain.errors import MusterError

if TYPE_CHECKING:
    from muster.config.tables import RequestTable, Table, TemplateTable
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
        """Raises IntegrationBroken: it can't be imported, or is no integration."""
        from muster.integration import Integration  # noqa: PLC0415 — it imports what `--help` need not

        with self.usable():
            found = getattr(import_module(self.module), self.attribute)
            if not isinstance(found, Integration):
                raise TypeError(f"{self.module}:{self.attribute} is no muster.integration.Integration")
        return found

    @contextmanager
    def usable(self) -> "Iterator[None]":
        """What its code raises becomes IntegrationBroken: its package is named, and the rest goes on."""
        try:
            yield
        except Exception as error:
            raise IntegrationBroken(
                f"cannot use the integration {self.name}: {type(error).__name__}: {error}; "
                f"upgrade the package {self.package}, or uninstall it"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """All integrations, in the order of their names."""

    integrations: Mapping[str, "Integration"]
    tables: Mapping[str, "Table"]
    template_tables: Mapping[str, "TemplateTable[Any]"]
    request_tables: Mapping[str, "RequestTable[Any]"]
    broken: Mapping[str, str]
    """Integrations that can't be used, by name: why, and what to do. Everything else works without them."""

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
    """Our own first, then by name. Raises IntegrationBroken: our own are not there."""
    found = sorted(dict.fromkeys(_all()), key=lambda each: (not each.package.startswith(OWN), each.name))
    if not found or not found[0].package.startswith(OWN):
        raise IntegrationBroken(
            "cannot find Muster's own integrations: it was installed before it had them; install it again"
            " (in a source tree: `.venv/bin/pip install --no-deps --no-build-isolation -e .`)"
        )
    return tuple(found)


@cache
def installed() -> Installed:
    integrations: dict[str, Integration] = {}
    tables: dict[str, Table] = {}
    template_tables: dict[str, TemplateTable[Any]] = {}
    request_tables: dict[str, RequestTable[Any]] = {}
    broken: dict[str, str] = {}
    for each in entry_points():
        try:
            integration = each.load()
            with each.usable():
                if integrations.get(each.name) is integration:
                    continue
                if each.name in integrations:
                    raise ValueError(f"{integrations[each.name].__module__} has the same name")
                own, parts = dict(integration.tables()), list(integration.template_tables())
                asked = list(integration.request_tables())
                every: list[TemplateTable[Any] | RequestTable[Any]] = [*parts, *asked]
                known = [*tables, *template_tables, *request_tables]
                for name in (*own, *(part.name for part in every)):
                    if name in known:
                        raise ValueError(f"another integration brings the table {name}")
                for part in every:
                    get_type_hints(part.kind), fields(part.kind)
        except IntegrationBroken as error:
            broken.setdefault(each.name, str(error))
            continue
        integrations[each.name] = integration
        tables |= own
        template_tables |= {part.name: part for part in parts}
        request_tables |= {part.name: part for part in asked}
    return Installed(
        integrations=dict(sorted(integrations.items())),
        tables=tables,
        template_tables=template_tables,
        request_tables=request_tables,
        broken=broken,
    )


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
