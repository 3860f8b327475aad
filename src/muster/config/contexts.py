"""Contexts: the servers that this user logged in to, and the one that counts now.

contexts.json in the user's configuration directory holds tokens, so only its owner may read it. A file that
others can read is refused, as ssh does with keys. Changes are made one at a time, and whole or not at all.
"""

import fcntl
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from muster.domain.errors import MusterError

LOCAL = "local"
"""The name of this machine's own server, which needs no entry."""
OWNER_ONLY = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


class ContextError(MusterError):
    """A context that is not there, or a file of contexts that can't be used. The message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    name: str
    url: str
    token: str = field(default="", repr=False)
    """Empty: logged out."""
    person: str = ""
    """Who logged in, as the server named them."""
    role: str = ""
    expires_at: str = ""
    """When the login ends, in ISO 8601; empty: it doesn't, or it is not known."""
    ca_file: str = ""
    """The certificate of the authority that signed the server's; empty: those that this machine trusts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    current: str = LOCAL
    every: tuple[Context, ...] = ()

    def find(self, name: str) -> Context:
        """Return a context. Raises ContextError with the nearest name."""
        for each in self.every:
            if each.name == name:
                return each
        names = [*(each.name for each in self.every), LOCAL]
        close = get_close_matches(name, names, n=1)
        advice = f"did you mean {close[0]}?" if close else "see `muster contexts`"
        raise ContextError(f"cannot find the context {name}; {advice}")

    def chosen(self, name: str) -> "Contexts":
        if name != LOCAL:
            self.find(name)
        return replace(self, current=name)

    def kept(self, context: Context) -> "Contexts":
        """Return the contexts with this one, in place of an earlier one of its name, and choose it."""
        others = tuple(each for each in self.every if each.name != context.name)
        every = tuple(sorted((*others, context), key=lambda each: each.name))
        return replace(self, current=context.name, every=every)

    def without(self, name: str) -> "Contexts":
        """Return the contexts without one. If it was the current one, the local server is."""
        self.find(name)
        every = tuple(each for each in self.every if each.name != name)
        return replace(self, current=LOCAL if self.current == name else self.current, every=every)


def check_name(name: str) -> str:
    """Return the name of a new context. Raises ContextError."""
    if name == LOCAL or not _NAME.fullmatch(name):
        rule = f"must be 1 to 63 letters, digits, dots, hyphens or underscores, and not {LOCAL}"
        raise ContextError(f"cannot name a context {name!r}: a name {rule}")
    return name


def config_directory(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """Return the user's configuration directory for Muster."""
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "muster"
    given = environment.get("XDG_CONFIG_HOME", "")
    base = Path(given) if given and Path(given).is_absolute() else Path.home() / ".config"
    return base / "muster"


class ContextsFile:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.path = config_directory(environment) / "contexts.json"

    def read(self) -> Contexts:
        """Return the contexts; none, if there is no file. Raises ContextError."""
        try:
            with self.path.open(encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read()
        except FileNotFoundError:
            return Contexts()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            raise ContextError(f"cannot read {self.path}: {why}") from error
        if mode & _OTHERS:
            raise ContextError(
                f"cannot use {self.path}: other users can read its tokens; run `chmod 600 {self.path}`"
            )
        try:
            return _decoded(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            advice = "correct it, or remove it and log in again"
            raise ContextError(f"cannot read {self.path}: it is not a file of contexts; {advice}") from error

    @contextmanager
    def changing(self) -> Iterator[list[Contexts]]:
        """Change the contexts: the block replaces the one item. No other process changes them meanwhile."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(
                self.path.with_name("contexts.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY
            )
        except OSError as error:
            raise ContextError(f"cannot write to {self.path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held = [self.read()]
            yield held
            self._write(held[0])
        finally:
            os.close(lock)

    def _write(self, contexts: Contexts) -> None:
        partial = self.path.with_name(f".contexts.{os.getpid()}")
        said = {"current": contexts.current, "contexts": [asdict(each) for each in contexts.every]}
        try:
            partial.unlink(missing_ok=True)
            made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(json.dumps(said, indent=2, ensure_ascii=False) + "\n")
            partial.replace(self.path)
        except OSError as error:
            raise ContextError(f"cannot write {self.path}: {error.strerror}") from error


def _decoded(said: Any) -> Contexts:
    known = Context.__dataclass_fields__
    every = tuple(
        Context(**{name: str(value) for name, value in each.items() if name in known})
        for each in said["contexts"]
    )
    return Contexts(current=str(said["current"]), every=every)
