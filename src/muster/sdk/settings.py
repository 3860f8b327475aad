"""What an app may set, from arguments first and the environment second, checked when the node starts.

Wrong settings are the only thing that this package raises into an app: at its start, saying what to do.
"""

import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

BEAT_LEAST, BEAT_MOST = 2.0, 30.0
PORT_MOST = 65535
NAME_MOST = 256
LOOPBACK = ("127.0.0.1", "::1")


class Misconfigured(Exception):
    """The app can't be a node as it is set up. Says which setting is wrong, and what to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments as an app gave them; None: look into the environment, then take the default."""

    server: str | Sequence[str] | None = None
    token: str | None = field(default=None, repr=False)
    port: int | None = None
    host: str | None = None
    accepts: Callable[[], bool] | None = None
    name: str | None = None
    address: str | None = None
    probe_path: str = "/health"
    beat_seconds: float | None = None
    leave_within: float = 5.0
    verify: ssl.SSLContext | bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    servers: tuple[str, ...]
    token: str = field(repr=False)
    accepts: Callable[[], bool]
    """Whether the app's own server accepts connections now."""
    name: str
    address: str
    beat_seconds: float
    leave_within: float
    verify: ssl.SSLContext | bool


def resolve(arguments: Arguments, environment: Mapping[str, str] = os.environ) -> Settings:
    return Settings(
        servers=_servers(arguments.server, environment),
        token=_token(arguments.token, environment),
        accepts=arguments.accepts or _accepting(arguments, environment),
        name=_name(arguments.name or environment.get("MUSTER_NAME") or socket.gethostname()),
        address=_address(arguments.address or environment.get("MUSTER_ADDRESS", ""), arguments.probe_path),
        beat_seconds=_beat_seconds(arguments.beat_seconds, environment),
        leave_within=max(0.0, float(arguments.leave_within)),
        verify=arguments.verify,
    )


def _servers(arguments: str | Sequence[str] | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    named = environment.get("MUSTER_SERVER", "") if arguments is None else arguments
    urls = named.split(",") if isinstance(named, str) else list(named)
    found = tuple(dict.fromkeys(url.strip().rstrip("/") for url in urls if url.strip()))
    if not found:
        raise Misconfigured(
            "cannot find the server: set MUSTER_SERVER (or server=) to its URL, e.g. "
            "http://127.0.0.1:8420; several are separated by commas"
        )
    for url in found:
        if not _usable(url):
            raise Misconfigured(
                f"cannot use {_shown(url)} as Muster's address: write MUSTER_SERVER (or server=) like "
                "http://127.0.0.1:8420, without a user, a query or a fragment"
            )
    return found


def _token(arguments: str | None, environment: Mapping[str, str]) -> str:
    """Return the token without a line end after it."""
    token = (arguments or environment.get("MUSTER_ENROL_TOKEN", "")).strip()
    path = environment.get("MUSTER_ENROL_TOKEN_FILE", "")
    if not token and path:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(
                f"cannot read MUSTER_ENROL_TOKEN_FILE {path}: {getattr(error, 'strerror', None) or error}"
            ) from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Misconfigured(
            "cannot enrol without an enrolment token: make one with `muster tokens create NAME --role enrol "
            "--template TEMPLATE --ttl 30d` and set MUSTER_ENROL_TOKEN (or token=)"
        )
    return token


def _accepting(arguments: Arguments, environment: Mapping[str, str]) -> Callable[[], bool]:
    port = arguments.port if arguments.port is not None else _number("MUSTER_APP_PORT", environment)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= PORT_MOST:
        raise Misconfigured(
            "cannot check when the app accepts connections: set port= (or MUSTER_APP_PORT) to the port that "
            f"it listens on, from 1 to {PORT_MOST}; an app without one gives accepts=, a function that "
            "says when it is up"
        )
    hosts = (arguments.host,) if arguments.host else LOOPBACK
    return lambda: any(_connects(host, port) for host in hosts)


def _connects(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def _number(name: str, environment: Mapping[str, str]) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise Misconfigured(f"cannot use {name} = {_shown(text)}: it must be a whole number") from None


def _name(name: str) -> str:
    if not 0 < len(name) <= NAME_MOST or not name.isprintable() or name != name.strip():
        raise Misconfigured(
            f"cannot use {_shown(name)} as this instance's name: set MUSTER_NAME (or name=) to 1 to "
            f"{NAME_MOST} printable characters"
        )
    return name


def _address(arguments: str, probe_path: str) -> str:
    if not arguments:
        return ""
    if not _usable(arguments):
        raise Misconfigured(
            f"cannot use {_shown(arguments)} as the app's address: write MUSTER_ADDRESS (or address=) like "
            "http://10.0.0.5:8000, as the server can reach it"
        )
    whole = urlsplit(arguments).path not in ("", "/")
    return arguments if whole else arguments.rstrip("/") + "/" + probe_path.lstrip("/")


def _beat_seconds(arguments: float | None, environment: Mapping[str, str]) -> float:
    value: object = environment.get("MUSTER_BEAT_SECONDS") or 5.0 if arguments is None else arguments
    try:
        seconds = float(value)  # type: ignore[arg-type]  # that is what is tried
    except (TypeError, ValueError):
        seconds = -1.0
    if not BEAT_LEAST <= seconds <= BEAT_MOST:
        raise Misconfigured(
            f"cannot beat every {_shown(value)} seconds: set MUSTER_BEAT_SECONDS (or beat_seconds=) to "
            f"{BEAT_LEAST:g} to {BEAT_MOST:g}"
        )
    return seconds


def _usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and parts.username is None
    return whole and plain and url.isprintable() and " " not in url


def _shown(value: object) -> str:
    """Show of a value that may hold a secret only that it is there."""
    text = str(value)
    return "what is set there" if "@" in text else repr(text[:80])
