"""`muster doctor`: check this machine, the server and its settings, and print next steps."""

import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muster.cli import output
from muster.cli.connection import open_client
from muster.cli.options import FILE, SettingsFile, find_settings_file
from muster.domain.errors import MusterError
from muster.integration import Check, Level, Machine

if TYPE_CHECKING:
    from muster.config import Config, Connection
    from muster.domain.template import TemplateSpec


PUBLIC_URL = "public_url"
"""Several integrations need one; the first says whether it is there."""
_LOOKS = {Level.OK: ("✔", "green"), Level.WARNING: ("▲", "yellow"), Level.FAILED: ("✖", "red")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the server told of its store."""

    installation_id: str | None = None
    templates: "tuple[TemplateSpec, ...]" = ()
    """Those that make nodes."""


def doctor(*, file: SettingsFile = None) -> None:
    """Check this machine, the server and what its settings name, and say what to do. Fails if something is
    broken."""
    checks = list(_checks(file))
    broken = [check for check in checks if check.level is Level.FAILED]
    if output.wants_json():
        output.print_json({"ok": not broken, "checks": checks})
    else:
        drawn(checks)
    if broken:
        raise typer.Exit(1)


def _checks(named: Path | None) -> Iterator[Check]:
    from muster.config import find_server, load

    config: Config | None = None
    elsewhere = find_server(os.environ).elsewhere
    path = find_settings_file(named) if named or not elsewhere else None
    try:
        config = load(path, environment=os.environ)
        settings = _settings(path, elsewhere=elsewhere)
        used = None if elsewhere else _used(config)
        if used is not None and (path is None or not _same(path, used)):
            settings = _others(path, used, named=named is not None)
            if named is None:  # what the server has counts, whatever lies in this directory
                path, config = used, load(used, environment=os.environ)
    except MusterError as error:
        settings = Check.failed("settings", str(error))
    found = find_server(os.environ, config.server.data_dir if config and not elsewhere else None)
    yield _python()
    stored = yield from _server(found)
    yield settings
    if config is not None and (path or not elsewhere):
        machine = Machine(config=config, data=found.data_dir, installation_id=stored.installation_id)
        yield from _integrations(machine, stored, here=not elsewhere)


def _settings(path: Path | None, *, elsewhere: bool) -> Check:
    if path is not None:
        return Check.ok("settings", str(path))
    if elsewhere:
        words = "the settings are on the server: what they name was not checked; give a copy with -f"
        return Check.ok("settings", words)
    words = f"no {FILE} here: checked defaults, environment and the server's store"
    return Check.warning("settings", words, "name the server's settings with -f, if it has any")


def _used(config: "Config") -> Path | None:
    """Return the settings file of this machine's running server, if it has one."""
    from muster.config import DataDirectory, find_server

    return DataDirectory(find_server(os.environ, config.server.data_dir).data_dir).settings()


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other


def _others(path: Path | None, used: Path, *, named: bool) -> Check:
    if path is None:
        return Check.ok("settings", f"{used}, with which the server was started")
    if named:
        words = f"{path} is not the settings file of the running server: that is {used}"
        advice = f"use -f {used} to check the server's own file"
    else:
        words = f"checked {used}, the file of the running server; {path} is another file"
        advice = f"start the server with -f {path}, if that one is meant"
    return Check.warning("settings", words, advice)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check.ok("python", f"{version} at {sys.executable}")


def _server(found: "Connection") -> Generator[Check, None, Stored]:
    import muster
    from muster.client import CannotReach, calls

    try:
        with open_client(None if found.elsewhere else found.data_dir) as client:
            client.send(calls.ready())
            yield Check.ok("server", f"{found.url} is ready: its store answers")
            installation = client.send(calls.installation())
            applied = client.send(calls.templates())
    except CannotReach as error:
        words, _, why = str(error).partition(": start it")
        yield Check.failed(
            "server",
            f"{words}{why[why.find(' (') :] if ' (' in why else ''}",
            "start it with `muster serve`, or set MUSTER_SERVER to where it is",
        )
        return Stored()
    except MusterError as error:
        yield Check.failed("server", str(error))
        return Stored()
    same = installation.version == muster.__version__
    words = f"server {installation.version}, this command {muster.__version__}"
    yield Check(
        subject="version",
        level=Level.OK if same else Level.WARNING,
        words=words,
        advice="" if same else "use the same version on both sides",
    )
    templates = tuple(each.spec(each.name) for each in applied if not each.spec(each.name).clusters)
    return Stored(installation_id=installation.id, templates=templates)


def _integrations(machine: Machine, stored: Stored, *, here: bool) -> Iterator[Check]:
    """Yield the checks of each integration that the settings or templates name."""
    from muster.discovery import installed

    # The file's own come first: they are applied at the next start.
    config = machine.config
    own = {each.name for each in config.templates}
    more = (each for each in stored.templates if each.name not in own)
    machine = replace(machine, config=replace(config, templates=(*config.templates, *more)))
    told: dict[str, bool] = {}
    for integration in installed().integrations.values():
        if here or not integration.local:
            for check in integration.doctor(machine):
                if check.subject != PUBLIC_URL or PUBLIC_URL not in told:
                    yield check
                told[check.subject] = True
    for name, why in installed().broken.items():
        yield Check.failed(name, why)


def drawn(checks: list[Check]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    width = max(len(check.subject) for check in checks)
    console = output.console() if output.is_terminal() else None
    for check in checks:
        sign, style = _LOOKS[check.level]
        if console is None:
            advice = f" → {check.advice}" if check.advice else ""
            output.say(f"{sign} {check.subject.ljust(width)}  {check.words}{advice}")
            continue
        indent = width + 4
        body = Text(check.words)
        if check.advice:
            body.append(f"\n→ {check.advice}", style="bold")
        lines = body.wrap(console, max(20, console.width - indent))
        console.print(Text.assemble((f"{sign} ", style), f"{check.subject.ljust(width)}  ", lines[0]))
        for line in lines[1:]:
            console.print(Padding(line, (0, 0, 0, indent)))
