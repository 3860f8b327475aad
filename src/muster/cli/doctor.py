"""`muster doctor`: what is fine, what is not, and what to do about it."""

import os
import shutil
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muster.cli.printing import Output
from muster.cli.settings_file import FILE, SettingsFile, chosen

if TYPE_CHECKING:
    from muster.config import Config, Connection
    from muster.domain.template import TemplateSpec
    from muster.providers.process import Report


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


_LOOKS = {Level.OK: ("✔", "green"), Level.WARNING: ("▲", "yellow"), Level.FAILED: ("✖", "red")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    subject: str
    level: Level
    words: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the server told of its store."""

    installation_id: str | None = None
    templates: "tuple[TemplateSpec, ...]" = ()
    """Those that make nodes."""


def doctor(*, file: SettingsFile = None, _output: Output = None) -> None:
    """Check this machine, the server and what its settings name, and say what to do. Fails if something is
    broken."""
    from muster.cli import printing

    checks = list(_checks(file))
    broken = [check for check in checks if check.level is Level.FAILED]
    if printing.wants_json():
        printing.document({"ok": not broken, "checks": checks})
    else:
        _drawn(checks)
    if broken:
        raise typer.Exit(1)


def _checks(named: Path | None) -> Iterator[Check]:
    from muster.cli.doctor_disk import disk
    from muster.config import find_server, load
    from muster.domain.errors import MusterError

    config: Config | None = None
    elsewhere = bool(os.environ.get("MUSTER_SERVER"))
    path = chosen(named) if named or not elsewhere else None
    try:
        config = load(path, environment=os.environ)
        settings = _settings(path, elsewhere=elsewhere)
    except MusterError as error:
        settings = Check(subject="settings", level=Level.FAILED, words=str(error))
    found = find_server(os.environ, config.server.data_dir if config else None)
    yield _python()
    stored = yield from _server(found)
    yield settings
    if not elsewhere:
        yield disk(found, config)
        yield from _isolation(found.data_dir, config)
    if config is not None and (path or not elsewhere):
        yield from _named(config, stored)


def _settings(path: Path | None, *, elsewhere: bool) -> Check:
    if path is not None:
        return Check(subject="settings", level=Level.OK, words=str(path))
    if elsewhere:
        words = "the server's are elsewhere, so neither EC2 nor GitHub was looked at; -f names a copy of them"
        return Check(subject="settings", level=Level.OK, words=words)
    words = f"there is no {FILE} here: looked at defaults, environment and what the server has in store"
    advice = "name the server's settings with -f, if it has any"
    return Check(subject="settings", level=Level.WARNING, words=words, advice=advice)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(subject="python", level=Level.OK, words=f"{version} at {sys.executable}")


def _server(found: "Connection") -> Generator[Check, None, Stored]:
    import muster
    from muster.cli.connecting import connected
    from muster.client import CannotReach, calls
    from muster.domain.errors import MusterError

    try:
        with connected(found.data_dir) as client:
            client.send(calls.ready())
            yield Check(subject="server", level=Level.OK, words=f"{found.url} is ready: its store answers")
            installation = client.send(calls.installation())
            specs = [template.spec for template in client.send(calls.templates())]
    except CannotReach as error:
        words, _, why = str(error).partition(": start it")
        yield Check(
            subject="server",
            level=Level.FAILED,
            words=f"{words}{why[why.find(' (') :] if ' (' in why else ''}",
            advice="start it with `muster serve`, or set MUSTER_SERVER to where it is",
        )
        return Stored()
    except MusterError as error:
        yield Check(subject="server", level=Level.FAILED, words=str(error))
        return Stored()
    same = installation.version == muster.__version__
    words = f"server {installation.version}, this command {muster.__version__}"
    yield Check(
        subject="version",
        level=Level.OK if same else Level.WARNING,
        words=words,
        advice="" if same else "use the same version on both sides",
    )
    templates = tuple(spec for spec in specs if spec is not None)
    return Stored(installation_id=installation.id, templates=templates)


def _isolation(data: Path, config: "Config | None") -> Iterator[Check]:
    """What is in force for nodes on this machine, as its provider reports it."""
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        yield Check(subject="bubblewrap", level=Level.OK, words=bwrap)
    elif sys.platform == "linux":
        advice = "install the package bubblewrap; nodes then don't see each other, HOME or the data directory"
        yield Check(subject="bubblewrap", level=Level.WARNING, words="not installed", advice=advice)
    if config is None:
        return
    report = in_force(data, capacity=config.process.capacity, isolation=config.process.isolation)
    for fact in report.facts:
        level = Level.OK if fact.fine else Level.WARNING
        yield Check(subject=fact.subject, level=level, words=fact.words)


def _named(config: "Config", stored: Stored) -> Iterator[Check]:
    """GitHub, and where else nodes come from; nothing if neither settings nor templates name any."""
    from muster.cli import doctor_ec2

    # The file's own come first: they are applied at the next start.
    own = {each.name for each in config.templates}
    more = (each for each in stored.templates if each.name not in own)
    config = replace(config, templates=(*config.templates, *more))
    if config.github.configured or any(each.runtime.value == "github" for each in config.templates):
        from muster.cli.doctor_github import github

        yield from github(config)
    yield from doctor_ec2.checks(config, installation_id=stored.installation_id)


def in_force(data: Path, *, capacity: int, isolation: str) -> "Report":
    """What isolation and limits nodes on this machine have."""
    import asyncio
    import tempfile

    from muster.providers.process import Isolation, ProcessProvider

    with tempfile.TemporaryDirectory(prefix="muster-doctor-") as scratch:
        provider = ProcessProvider(
            # Looking must not make a data directory.
            data / "nodes" if (data / "nodes").is_dir() else Path(scratch) / "nodes",
            installation_id="doctor",
            servers=(),
            capacity=capacity,
            isolation=Isolation(isolation),
        )
        return asyncio.run(provider.report())


def _drawn(checks: list[Check]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from muster.cli import printing

    width = max(len(check.subject) for check in checks)
    console = printing.console() if printing.terminal() else None
    for check in checks:
        sign, style = _LOOKS[check.level]
        if console is None:
            advice = f" → {check.advice}" if check.advice else ""
            printing.say(f"{sign} {check.subject.ljust(width)}  {check.words}{advice}")
            continue
        indent = width + 4
        body = Text(check.words)
        if check.advice:
            body.append(f"\n→ {check.advice}", style="bold")
        lines = body.wrap(console, max(20, console.width - indent))
        console.print(Text.assemble((f"{sign} ", style), f"{check.subject.ljust(width)}  ", lines[0]))
        for line in lines[1:]:
            console.print(Padding(line, (0, 0, 0, indent)))
