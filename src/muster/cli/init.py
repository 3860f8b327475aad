"""`muster init`: write a commented muster.toml for this machine, and say what to do next."""

import os
import shutil
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.cli.options import FILE, Yes, confirm
from muster.domain import checks
from muster.domain.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LOCAL = "http://127.0.0.1:8420"


def init(
    *,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The file to write.")] = FILE,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where nodes and people reach the server. (default: this machine)"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="postgresql://… or dynamodb://… (default: SQLite on this machine)"),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="(default: the user's data directory)")
    ] = None,
    max_nodes: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="How many nodes there may be at once.")
    ] = 8,
    template: Annotated[str, typer.Option(metavar="NAME", help="The name of the first template.")] = "ci",
    yes: Yes = False,
) -> None:
    """Write a muster.toml with a comment for each setting. In a terminal it asks for what is not given.

    A file that is there is changed only after a question, and kept beside the new one.
    """
    asked = _answers(yes)
    answers = {
        "public_url": public_url if public_url is not None else asked("URL of the server for nodes", LOCAL),
        "store": store if store is not None else asked("Store (empty: SQLite on this machine)", ""),
        "data_dir": data_dir or "",
        "max_nodes": str(max_nodes),
        "template": template,
    }
    _check_no_password(answers["store"], file)
    text = settings_text(answers)
    _checked(text, file)
    present = _present(file)
    if present == text.encode():
        _told(file, None, words=f"{file} says all of this already; nothing was changed")
        return
    if present is not None:
        confirm(f"{file} exists. It will be replaced, and kept beside it.", yes=yes)
    kept = _written(file, text, replaces=present is not None)
    _told(file, kept, words=f"wrote {file}" + (f"; the old file is {kept}" if kept else ""))
    if not output.wants_json():
        output.say(f"  start a server:       muster serve -f {file}")
        output.say(f"  or as a service:      muster service install -f {file}")
        output.say(f"  store the template:   muster apply -f {file}")
        output.say("  check everything:     muster doctor")


def settings_text(answers: "Mapping[str, str]") -> str:
    """Return the file. What is left at its default is a comment."""
    local = answers["public_url"] in ("", LOCAL)
    name = checks.name("template", answers["template"])
    lines = [
        "# Settings of a Muster server. Every setting: docs/configuration.md.",
        "",
        "[installation]",
        f"max_nodes = {answers['max_nodes']}        # hard: no race and no failure exceeds it",
        "",
        "[server]",
        "# Where nodes and people reach the server. Nodes of other machines need this.",
        f"{'# ' if local else ''}public_url = {_quoted(answers['public_url'] or LOCAL)}",
        "# Listen beyond this machine. Put TLS in front of it.",
        f'{"# " if local else ""}host = "0.0.0.0"',
        "# SQLite by default. Several servers share a PostgreSQL or DynamoDB store. Passwords: MUSTER_STORE.",
        _setting("store", answers["store"], "postgresql://muster@db.example.com/muster"),
        "# Where tokens, output and SQLite's file are.",
        _setting("data_dir", answers["data_dir"], "/var/lib/muster"),
        "",
        f"[templates.{name}]",
        'provider = "process"       # processes of this machine; also: ec2, ssh, docker, command-NAME',
        'resource_class = "small"',
        "min_idle = 1               # kept warm",
        "max_nodes = 4",
        'boot_script = """',
        "# What every node does once, before its first run.",
        '"""',
    ]
    return "\n".join(lines) + "\n"


def _setting(key: str, value: str, example: str) -> str:
    return f"{key} = {_quoted(value)}" if value else f"# {key} = {_quoted(example)}"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _check_no_password(store: str, file: Path) -> None:
    """Refuse a password: others may read the file. Raises UsageProblem, which doesn't repeat it."""
    from urllib.parse import parse_qs, urlsplit

    try:
        parts = urlsplit(store)
    except ValueError:
        return  # no URL: the check of the whole file says so
    if parts.password or "password" in parse_qs(parts.query):
        raise UsageProblem(
            "cannot write the store's URL: it has a password, and others may read the file;"
            " set MUSTER_STORE to the URL instead, for a service in /etc/muster/environment"
            f" (a user's: ~/.config/muster/environment); {file} was not written"
        )


def _checked(text: str, file: Path) -> None:
    """Read the text as a server would. Raises UsageProblem."""
    from tempfile import TemporaryDirectory

    from muster.config import load

    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "muster.toml"
        path.write_text(text, encoding="utf-8")
        try:
            load(path)
        except MusterError as error:
            said = str(error).replace(str(path), str(file))
            raise UsageProblem(f"{said}; {file} was not written") from error


def _answers(yes: bool) -> "Callable[[str, str], str]":
    interactive = not yes and not output.wants_json() and sys.stdin.isatty() and sys.stderr.isatty()

    def asked(question: str, default: str) -> str:
        if not interactive:
            return default
        return str(typer.prompt(question, default=default, err=True)).strip()

    return asked


def _present(file: Path) -> bytes | None:
    """Return what the file holds; None: there is none. Raises UsageProblem for what is no file."""
    try:
        if file.exists() and not file.is_file():
            raise UsageProblem(f"cannot write {file}: it is there and is no file; name another one with -f")
        return file.read_bytes() if file.exists() else None
    except OSError as error:
        raise UsageProblem(f"cannot read {file}: {error.strerror}") from error


def _written(file: Path, text: str, *, replaces: bool) -> Path | None:
    """Write the file, whole or not at all, where links lead. Return where the text is that it replaces."""
    kept, target = None, Path(os.path.realpath(file)) if file.is_symlink() else file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(target, private=replaces) as new:
            new.write_text(text, encoding="utf-8")
            if replaces:
                kept = _kept_beside(target)
                _give_rights(target, new)
            new.replace(target)
    except OSError as error:
        if kept is not None:
            kept.unlink(missing_ok=True)
        raise UsageProblem(f"cannot write {file}: {error.strerror}; nothing was changed") from error
    return kept


@contextmanager
def _scratch(target: Path, *, private: bool) -> "Iterator[Path]":
    """Make a file with a name of its own beside the target. Remove it at the end."""
    from uuid import uuid4

    new = target.with_name(f".{target.name}.{uuid4().hex}")
    new.touch(mode=0o600 if private else 0o666, exist_ok=False)
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def _kept_beside(target: Path) -> Path:
    """Copy a file beside itself, so that it is in its place at any moment. Return where the copy is."""
    number = 1
    while True:
        beside = target.with_name(f"{target.name}.{number}")
        try:
            beside.touch(mode=0o600, exist_ok=False)
            break
        except FileExistsError:
            number += 1
    try:
        shutil.copyfile(target, beside)
        _give_rights(target, beside)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return beside


def _give_rights(source: Path, copy: Path) -> None:
    """Give a copy the owner and mode of its source. Only root can give files to other users."""
    there = source.stat()
    with suppress(PermissionError):
        os.chown(copy, there.st_uid, there.st_gid)
    copy.chmod(stat.S_IMODE(there.st_mode))


def _told(file: Path, kept: Path | None, *, words: str) -> None:
    output.show({"file": str(file), "kept": str(kept) if kept else None, "message": words}, words)
